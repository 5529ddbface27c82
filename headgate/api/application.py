"""The control API and its console as an ASGI application, to be served alone or mounted."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.middleware import Middleware

from headgate.api.boundary import Boundary
from headgate.api.config import ApiConfig
from headgate.api.console import console_routes
from headgate.api.endpoint import PathEndpoint
from headgate.api.errors import EXCEPTION_HANDLERS
from headgate.api.hosts import LocalNamesOnly
from headgate.api.operations import Operation
from headgate.api.requests import Api
from headgate.api.routing import RawRoute, RawRouter
from headgate.api.table import OPERATIONS
from headgate.store.store import Store


def create_app(
    store: Store,
    config: ApiConfig | None = None,
    *,
    operations: Sequence[Operation] = OPERATIONS,
) -> Starlette:
    """The control API on `store`, which the caller opened and closes.

    The database may be away when the application starts and at any time later: what needs it is
    answered 503 until it is back. Below another application (`Mount("/jobs", create_app(store))`)
    it works the same, with its prefix after that of the mount and the console at `/jobs/`.
    """
    config = config or ApiConfig()
    api = Api(store, config, tuple(operations))
    by_path: dict[str, list[Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, []).append(operation)
    middleware = [Middleware(Boundary, access_log=config.access_log)]
    if config.local_names_only:
        middleware.append(Middleware(LocalNamesOnly))
    application = Starlette(middleware=middleware, exception_handlers=EXCEPTION_HANDLERS)
    routes = [RawRoute(path, PathEndpoint(group, api)) for path, group in by_path.items()]
    if config.console:
        routes += console_routes()
    application.router = RawRouter(routes)
    application.state.broadcaster = api.broadcaster
    return application


def end_streams(application: Starlette) -> None:
    """Ends the event streams of an application, which otherwise keep a server from ending."""
    application.state.broadcaster.close()
