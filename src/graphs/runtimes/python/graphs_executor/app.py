"""The routes of the application: `http.app`. They are served on a socket of the server, which has checked the caller."""

import asyncio
import json
import os
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

from .loading import LoadError, import_file

# The caller by the authentication of the application. The server removes it from what a caller sends.
USER_HEADER = b"x-graphs-user"


def _load_app(spec: dict, folder: str) -> Any:
    app = getattr(import_file("`http.app`", spec["path"], folder), spec["name"], None)
    if not callable(app):
        raise LoadError(f"`http.app`: `{spec['name']}` of {spec['path']} is no ASGI app, such as one of FastAPI.")
    return app


def _list_routes(app: Any) -> list[str]:
    """The routes, as `GET /path`, of an app that lists them."""
    return [
        f"{method} {route.path}"
        for route in getattr(app, "routes", ())
        for method in sorted(getattr(route, "methods", None) or ())
        if method != "HEAD"
    ]


def _with_user(app: Any) -> Any:
    """Handlers find the caller at `request.user`, as with a middleware of Starlette."""

    async def serve(scope: dict, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            found = [value for name, value in scope["headers"] if name == USER_HEADER]
            scope = scope | {"headers": [pair for pair in scope["headers"] if pair[0] != USER_HEADER]}
            if found:
                from .auth import User

                user = json.loads(unquote(found[0].decode()))
                scope |= {"user": User(user), "auth": SimpleNamespace(scopes=list(user.get("permissions") or ()))}
        await app(scope, receive, send)

    return serve


async def serve_app(spec: dict, folder: str) -> list[str]:
    app = _load_app(spec, folder)
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self):
            """The executor ends with its server."""
            yield

    socket = spec["socket"]
    # An executor that ended before may have left it.
    if os.path.exists(socket):
        os.unlink(socket)
    server = Server(
        uvicorn.Config(
            _with_user(app),
            uds=socket,
            root_path=spec["prefix"],
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
        )
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:
        if serving.done():
            raise LoadError(f"`http.app`: `{spec['name']}` of {spec['path']} did not start. The log has the reason.")
        await asyncio.sleep(0.01)
    # The loop keeps weak references only.
    _serving.add(serving)
    return _list_routes(app)


_serving: set[asyncio.Task] = set()
