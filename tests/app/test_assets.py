"""The browser's part.

Given out from memory as it is on disk, and what the first page needs announced with the page.
"""

import asyncio

from app import assets


def answered(path, *, method="GET", headers=(), inner=()):
    """What a request for ``path`` is answered, if the server behind answers ``inner``."""
    sent = []

    async def send(message):
        sent.append(message)

    async def behind(scope, receive, send):
        for message in inner:
            await send(dict(message))

    asyncio.run(
        assets.Assets(behind)(
            {"type": "http", "method": method, "path": path, "headers": list(headers)}, None, send
        )
    )
    return sent


def test_a_script_is_the_file_and_may_be_kept():
    name = assets.first_pieces()[0]
    start, body = answered(f"/static/js/{name}")
    headers = dict(start["headers"])
    assert body["body"] == (assets.FOLDER / "static" / "js" / name).read_bytes()
    assert headers[b"content-length"] == str(len(body["body"])).encode()
    assert headers[b"content-type"].startswith(b"text/javascript")
    assert b"immutable" in headers[b"cache-control"]


def test_what_it_does_not_keep_is_the_servers_own():
    inner = [{"type": "http.response.start", "status": 418, "headers": []}]
    name = assets.first_pieces()[0]
    for path in ("/static/js/../index.html", "/static/js/none.js", "/_stcore/health", "/static/"):
        assert answered(path, inner=inner)[0]["status"] == 418
    assert answered(f"/static/js/{name}", method="HEAD", inner=inner)[0]["status"] == 418
    assert (
        answered(f"/static/js/{name}", headers=[(b"range", b"bytes=0-1")], inner=inner)[0]["status"]
        == 418
    )


def test_a_page_announces_pieces_that_there_are_and_nothing_else_does():
    page = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"text/html; charset=utf-8")],
    }
    (start,) = answered("/", inner=[page])
    links = dict(start["headers"])[b"link"].decode().split(", ")
    assert len(links) > 10
    for link in links:
        path = link.partition(">")[0].removeprefix("<")
        assert assets.content(path) is not None
        assert link.endswith('rel="modulepreload"')
    plain = {**page, "headers": [(b"content-type", b"text/plain")]}
    assert answered("/x", inner=[plain]) == [plain]
