"""The dashboard's browser policy: pages fetch from this server only, and cannot be framed.

Names in files and addresses are shown as text (`app.plain`). If one were rendered as Markdown
nevertheless, the browser would still load nothing from another server.
"""

from __future__ import annotations

from starlette.middleware.base import RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

_SOURCES = {
    "default-src": "'self'",
    # Streamlit's page has an inline script, and its components load as modules from blob: URLs.
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


async def add_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """Add the headers to a response (starlette's middleware)."""
    response = await call_next(request)
    response.headers.update(HEADERS)  # in place of the server's own
    return response
