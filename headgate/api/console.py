"""The web console: static files beside the API whose client they are.

The shell at `/` names its scripts and styles relative to itself, below a name made from their
contents. So they work under any prefix, also behind a proxy that takes one away, a browser keeps
them for good, and it never mixes those of two versions. The modules are sent as one script: a
browser would ask for each of them, and for most only after it has read another.
"""

import gzip
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headgate.api.javascript import joined
from headgate.api.responses import empty_response
from headgate.api.routing import RawRoute

ROOT: Final = Path(__file__).parent.parent / "console"
SHELL: Final = "index.html"
ENTRY: Final = "main.js"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)

_PLACEHOLDER: Final = b"console/0/"
_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_GOOD: Final = "public, max-age=31536000, immutable"
_ASK_AGAIN: Final = "no-cache"


class ConsoleFile:
    """A file as it is sent, compressed for whoever takes that."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self._content = content
        self._compressed = gzip.compress(content, mtime=0)
        self._headers = {
            "content-type": media_type,
            "content-security-policy": POLICY,
            "cross-origin-opener-policy": "same-origin",
            "etag": f'"{sha256(content).hexdigest()[:32]}"',
            "vary": "accept-encoding",
        }

    def response(self, scope: Scope, cache_control: str) -> Response:
        """The answer to a GET or HEAD: 304 where the client has it already."""
        headers = {**self._headers, "cache-control": cache_control}
        asked = dict(reversed(scope["headers"]))
        if self._headers["etag"].encode() in asked.get(b"if-none-match", b""):
            return empty_response(304, headers)
        content = self._content
        if b"gzip" in asked.get(b"accept-encoding", b""):
            content = self._compressed
            headers["content-encoding"] = "gzip"
        response = Response(content, headers=headers)
        if scope["method"] == "HEAD":
            response.body = b""
        return response


class Console:
    """The files below `root`, and the routes to them."""

    def __init__(self, root: Path = ROOT) -> None:
        contents = {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.suffix in _MEDIA_TYPES
        }
        shell = contents.pop(SHELL)
        scripts = [name for name in contents if name.endswith(".js")]
        modules = {name: contents.pop(name).decode() for name in scripts}
        contents[ENTRY] = joined(ENTRY, modules).encode()
        self.version: Final = _version(contents.items())
        self._shell = ConsoleFile(
            shell.replace(_PLACEHOLDER, f"console/{self.version}/".encode()), _MEDIA_TYPES[".html"]
        )
        self._files = {
            name: ConsoleFile(content, _MEDIA_TYPES[Path(name).suffix])
            for name, content in contents.items()
        }

    @property
    def routes(self) -> list[RawRoute]:
        return [RawRoute(path, self) for path in ("/", "/console/{version}/{file}")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        names = scope["path_params"]
        file: ConsoleFile | None = self._shell
        kept = False
        if "file" in names:
            file = self._files.get(names["file"])
            # While a new version is rolled out, the shell of one may meet the files of another.
            kept = names["version"] == self.version
        if file is None:
            return empty_response(404)
        if scope["method"] not in ("GET", "HEAD"):
            return empty_response(405, {"allow": "GET, HEAD"})
        return file.response(scope, _FOR_GOOD if kept else _ASK_AGAIN)


@cache
def console_routes() -> list[RawRoute]:
    """The routes to the console of this version."""
    return Console().routes


def _version(contents: Iterable[tuple[str, bytes]]) -> str:
    digest = sha256()
    for name, content in contents:
        digest.update(f"{name} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
