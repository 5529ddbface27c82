"""Answers with a JSON body, or with none."""

from collections.abc import Mapping

from starlette.responses import Response

from headgate.api.wire import encode


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """`value` as compact JSON with sorted keys, `Content-Type: application/json`."""
    return Response(encode(value), status, headers, media_type="application/json")


def empty_response(status: int = 204, headers: Mapping[str, str] | None = None) -> Response:
    """No body at all, and no content type."""
    return Response(None, status, headers)
