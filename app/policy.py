"""The dashboard's browser policy: pages fetch from this server only, and cannot be framed.

Names in files and addresses are shown as text (`app.plain`). If one were rendered as Markdown
nevertheless, the browser would still contact no other server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

_SOURCES = {
    "default-src": "'self'",
    # Streamlit's page has an inline script, and drawings of pages are modules from memory.
    "script-src": "'self' 'unsafe-inline' blob:",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "connect-src": "'self'",
    "worker-src": "'self' blob:",
    "object-src": "'none'",
    "base-uri": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in _SOURCES.items()),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class Policy:
    """Middleware that adds the headers to every response."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request (ASGI)."""
        await self._app(scope, receive, _stating(send) if scope["type"] == "http" else send)


def _stating(send: Send) -> Send:
    """Return ``send`` with these headers in place of the server's own."""
    own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [
                header
                for header in message.get("headers", [])
                if header[0].decode().lower() not in HEADERS
            ]
            message["headers"] = [*kept, *own]
        await send(message)

    return sent
