"""The browser's part of Streamlit, given out from memory.

The pieces of it that the first page needs are announced with the first answer.

A cold browser asks for about a hundred small files. Each costs Streamlit's server several turns of
a thread, and a piece is asked for only when an element that needs it is there; both are waited for
at the start.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import streamlit as st

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

FOLDER = Path(str(st.__file__)).parent / "static"
_UNDER = "/static/"
_KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".woff2": "font/woff2",
}
_FOREVER = b"public, immutable, max-age=31536000"  # their names hold a hash of their content
_FIRST = ("Selectbox", "NumberInput", "Checkbox", "Metric", "Html")  # elements of the first page
_IMPORTED = re.compile(r'(?:from|import)\s*"\./([\w.-]+\.js)"')
_HEAD = 10_000  # characters of a piece, among which are its imports


class Assets:
    """Answers for files below ``/static/``, whose names never change content.

    All else is the server's own.
    """

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        found = content(scope["path"])
        # Who asks for a part of a file is answered by the server, which knows how.
        asks_for_a_part = any(name == b"range" for name, _ in scope["headers"])
        if found is None or asks_for_a_part:
            await self._app(scope, receive, _announcing(send))
            return
        headers = _headers(scope["path"], found)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": found})


@cache
def content(path: str) -> bytes | None:
    """The file that the browser knows as ``path``; None where it is none of those that are kept."""
    return _kept()[path].read_bytes() if path in _kept() else None


@cache
def first_pieces() -> tuple[str, ...]:
    """Scripts that the first page's elements need, by file name.

    Those that Streamlit's own page announces are left out.
    """
    index = (FOLDER / "index.html").read_text(encoding="utf-8")
    scripts = {path.name: path for path in _kept().values() if path.suffix == ".js"}
    starts = [name for first in _FIRST for name in scripts if name.startswith(f"{first}.")]
    return tuple(name for name in _with_imports(starts, scripts) if name not in index)


@cache
def _kept() -> dict[str, Path]:
    files = (FOLDER / "static").rglob("*")
    return {
        _UNDER + path.relative_to(FOLDER / "static").as_posix(): path
        for path in files
        if path.suffix in _KINDS
    }


def _with_imports(names: Iterable[str], scripts: dict[str, Path]) -> list[str]:
    """``names`` and all that they import, and so on."""
    # A dict and not a set: those that are needed first are announced first.
    found: dict[str, None] = {}
    left = list(names)
    while left:
        name = left.pop(0)
        if name in scripts and name not in found:
            found[name] = None
            left += _IMPORTED.findall(scripts[name].read_text(encoding="utf-8")[:_HEAD])
    return list(found)


def _headers(path: str, body: bytes) -> list[tuple[bytes, bytes]]:
    kind = _KINDS[Path(path).suffix].encode()
    return [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", _FOREVER),
    ]


def _announcing(send: Send) -> Send:
    """``send``, with the first pieces in the header of a page (HTML)."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start" and _is_page(message["headers"]):
            pieces = [f'<{_UNDER}js/{name}>; rel="modulepreload"' for name in first_pieces()]
            links = ", ".join(pieces).encode()
            message["headers"] = [*message["headers"], (b"link", links)]
        await send(message)

    return sent


def _is_page(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"content-type" and value.startswith(b"text/html") for name, value in headers
    )
