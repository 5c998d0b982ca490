"""The authentication and authorization of the application: an `Auth` of the SDK, by the handlers that it was given."""

import inspect
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from langgraph_sdk.auth import exceptions, types

from .loading import LoadError, import_file


def load_auth(spec: dict, folder: str) -> Any:
    auth = getattr(import_file("`auth.path`", spec["path"], folder), spec["name"], None)
    if not hasattr(auth, "_authenticate_handler"):
        raise LoadError(f"`auth.path`: `{spec['name']}` of {spec['path']} is no `Auth` of the SDK.")
    if auth._authenticate_handler is None:
        raise LoadError(f"`auth.path`: `{spec['name']}` has no handler for `authenticate`.")
    return auth


class Refused(Exception):
    """A refusal of a handler, with its status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class User:
    """A user as handlers know one: by attributes, and by names in brackets."""

    def __init__(self, data: dict) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:
        try:
            return self._data[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def __iter__(self):
        return iter(self._data)

    def get(self, name: str, fallback: Any = None) -> Any:
        return self._data.get(name, fallback)


async def _call(handler: Any, **arguments: Any) -> Any:
    try:
        answer = handler(**arguments)
        return await answer if inspect.isawaitable(answer) else answer
    except exceptions.HTTPException as error:
        raise Refused(error.status_code, str(error.detail)) from error
    except AssertionError as error:
        raise Refused(403, str(error)) from error


def _to_user(given: Any) -> dict:
    if isinstance(given, str):
        known: dict = {"identity": given}
    elif isinstance(given, dict):
        known = dict(given)
    elif hasattr(given, "model_dump"):
        known = given.model_dump()
    else:
        names = [name for name in dir(given) if not name.startswith("_") and not callable(getattr(given, name))]
        known = {name: getattr(given, name) for name in names}
    identity = known.get("identity")
    if not isinstance(identity, str):
        raise TypeError("`authenticate` returned a user without an `identity`.")
    return {"is_authenticated": True, "display_name": identity, "permissions": []} | known


def _read_request(message: dict) -> dict:
    """The request as a handler may take it, by the names of its parameters."""
    url = urlsplit(message["url"])
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in message["headers"]]
    return {
        "method": message["method"],
        "path": url.path,
        "path_params": {},
        "query_params": dict(parse_qsl(url.query)),
        "headers": dict(headers),
        "authorization": dict(message["headers"]).get("authorization"),
        "scope": {
            "type": "http",
            "http_version": "1.1",
            "method": message["method"],
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.path.encode(),
            "query_string": url.query.encode(),
            "headers": headers,
            "path_params": {},
            "server": (url.hostname, url.port or 80),
            "client": None,
        },
    }


async def authenticate(auth: Any, message: dict) -> dict | None:
    handler = auth._authenticate_handler
    given = _read_request(message)
    wanted = inspect.signature(handler).parameters
    arguments = {name: given[name] for name in wanted if name in given}
    if "request" in wanted:
        from starlette.requests import Request

        arguments["request"] = Request(given["scope"])
    user = await _call(handler, **arguments)
    return None if user is None else _to_user(user)


async def authorize(auth: Any, message: dict) -> dict:
    """The most specific handler decides. Without any, all is allowed."""
    resource, action, value, user = (message[name] for name in ("resource", "action", "value", "user"))
    keys = [(resource, action), (resource, "*"), ("*", action)]
    found = next((auth._handlers[key] for key in keys if key in auth._handlers), auth._global_handlers)
    if not found:
        return {"filters": None, "value": value}
    is_studio = user.get("kind") == "StudioUser"
    known = types.StudioUser(user["identity"], is_authenticated=True) if is_studio else User(user)
    context = types.AuthContext(permissions=user["permissions"], user=known, resource=resource, action=action)
    answer = await _call(found[-1], ctx=context, value=value)
    return {"filters": None if answer is True else answer, "value": value}
