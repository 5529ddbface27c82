"""The control API as the command sees it: one connection, plain JSON, errors with exit codes."""

import http.client
import secrets
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from headgate.cli.exits import EXIT_FAILED, EXIT_UNAVAILABLE, ApiError, exit_code
from headgate.model.errors import InvalidRequest

PREFIX: Final = "/api/v1"
MAX_PAGE: Final = 200
_NEXT_CURSOR: Final = "x-next-cursor"


class Installation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a control API is, and with which token it lets us in; "" is without one."""

    url: str
    token: str = ""


class ControlApi:
    """Calls the control API of one installation, over a connection that is kept."""

    def __init__(
        self, installation: Installation, *, idempotency_key: str = "", timeout_s: float = 30
    ) -> None:
        """`idempotency_key` is sent with every mutation in place of a fresh one. Raises
        `InvalidRequest` for a URL that is none of http or https.
        """
        parts = urlsplit(installation.url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise InvalidRequest(f"`{installation.url}` is no URL such as http://127.0.0.1:8080")
        self._installation = installation
        self._timeout_s = timeout_s
        self._url = installation.url
        # The address that a server announces ends in the prefix already.
        self._base = parts.path.rstrip("/").removesuffix(PREFIX) + PREFIX
        self._key = idempotency_key
        self._token = installation.token
        self._connection = (
            http.client.HTTPConnection(parts.hostname, port, timeout=timeout_s)
            if parts.scheme == "http"
            else http.client.HTTPSConnection(
                parts.hostname, port, timeout=timeout_s, context=ssl.create_default_context()
            )
        )

    def with_fresh_keys(self) -> Self:
        """The same API, each mutation under a key of its own."""
        return type(self)(self._installation, timeout_s=self._timeout_s)

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at `path`; a parameter that is None is left out. Raises `ApiError`."""
        return self._call("GET", path, query=query)[0]

    def send(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Carries out a mutation; its JSON, or None. Raises `ApiError`."""
        return self._call(method, path, query=query, body=body)[0]

    def listed(self, path: str, limit: int | None = None, **query: Any) -> Iterator[Any]:
        """The entries of a list in pages, up to `limit`. Raises `ApiError`."""
        return self._pages(path, limit, query, _entries_by_header)

    def paged(
        self,
        path: str,
        name: str,
        limit: int | None = None,
        cursor: str | None = None,
        **query: Any,
    ) -> Iterator[Any]:
        """The entries of a list whose pages have them under `name`, from a cursor on."""
        query["cursor"] = cursor
        return self._pages(
            path, limit, query, lambda answer, _: (answer[name], answer["next_cursor"])
        )

    def _pages(
        self, path: str, limit: int | None, query: dict[str, Any], read: Any
    ) -> Iterator[Any]:
        left = limit
        while left is None or left > 0:
            size = MAX_PAGE if left is None else min(left, MAX_PAGE)
            entries, cursor = read(*self._call("GET", path, query={**query, "limit": size}))
            yield from entries
            if cursor is None:
                return
            query["cursor"] = cursor
            left = None if left is None else left - len(entries)

    def _call(
        self, method: str, path: str, *, query: Mapping[str, Any], body: Any = None
    ) -> tuple[Any, Mapping[str, str]]:
        given = {name: _text(value) for name, value in query.items() if value is not None}
        target = self._base + path + ("?" + urlencode(given) if given else "")
        headers = {"accept": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        if method != "GET":
            headers["idempotency-key"] = self._key or f"cli-{secrets.token_hex(16)}"
        content = None
        if body is not None:
            headers["content-type"] = "application/json"
            content = msgspec.json.encode(body)
        status, found, answer = self._exchange(method, target, content, headers)
        try:
            decoded = msgspec.json.decode(answer) if answer else None
        except msgspec.DecodeError:
            raise ApiError(f"{self._url} answers {status}, and no JSON", EXIT_FAILED) from None
        if status >= 400:
            raise ApiError(_complaint(status, decoded, path), exit_code(status))
        return decoded, found

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        # The server may have closed a connection that was kept: then a new one, once. A mutation
        # is repeated under the same key.
        for last in (self._connection.sock is None, True):
            try:
                self._connection.request(method, target, body, headers)
                answer = self._connection.getresponse()
                found = {name.lower(): value for name, value in answer.getheaders()}
                return answer.status, found, answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if last:
                    reason = str(error) or type(error).__name__
                    raise ApiError(
                        f"cannot reach {self._url}: {reason}", EXIT_UNAVAILABLE
                    ) from None
        raise AssertionError("one of the two was the last")


def segment(name: str) -> str:
    """A name as one segment of a path, whatever is in it."""
    return quote(name, safe="")


def _entries_by_header(answer: Any, headers: Mapping[str, str]) -> tuple[list[Any], str | None]:
    return answer, headers.get(_NEXT_CURSOR)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _complaint(status: int, answer: Any, path: str) -> str:
    if isinstance(answer, dict) and "error" in answer:
        rest = {name: value for name, value in answer.items() if name != "error"}
        facts = ", ".join(f"{name} {_text(value)}" for name, value in rest.items())
        return f"{answer['error']} ({facts})" if facts else str(answer["error"])
    return f"{path} is answered {status}: is this a control API of this version?"
