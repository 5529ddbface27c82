"""What one worker does, served to Prometheus."""

import logging

from headgate.client.application import Headgate
from headgate.model.errors import InvalidRequest

logger = logging.getLogger("headgate.worker")


def serve_metrics(app: Headgate, host: str, port: int) -> None:
    """Adds a listener to the application's and serves its metrics from a thread.

    Port 0 takes a free one. Raises `InvalidRequest` when the port is taken or the extra is missing.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server

        from headgate.telemetry.prometheus import PrometheusTelemetry
    except ModuleNotFoundError:
        raise InvalidRequest(
            "--metrics-port needs the extra `prometheus`: install headgate-queue[prometheus]"
        ) from None
    registry = CollectorRegistry()
    app.telemetry.add(PrometheusTelemetry(registry))
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise InvalidRequest(
            f"cannot serve metrics on {host}:{port}: {error.strerror or error}"
        ) from error
    logger.info("metrics at http://%s:%d/metrics", host, server.server_port)
