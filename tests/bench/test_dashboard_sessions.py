"""Twenty sessions of one dashboard, of which four keep it busy: how long the others wait."""

import asyncio
import random
import socket
import subprocess
import sys
import time
from urllib.request import urlopen

import numpy as np
import pytest

pytestmark = [
    pytest.mark.bench,
    # Sessions are cut off in the end, and their sockets with them.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LIGHT, HEAVY = 16, 4
SECONDS = 60.0  # that all of them are at it
THINKS_S = 15.0  # on average, between what a light one is shown and what it asks next
LONG = "set=cluster.nodes=128&set=run.steps=50000&vary=strategy.sync.kind"
JITTER = "set=disturbance.jitter={kind: lognormal, sigma: 0.2}"


@pytest.fixture
def port():
    pytest.importorskip("streamlit", reason="the dashboard needs streamlit")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    command = "from dpsim.cli import main; main()", "app", "--port", str(number), "--no-browser"
    with subprocess.Popen([sys.executable, "-c", *command], stderr=subprocess.DEVNULL) as server:
        try:
            end = time.monotonic() + 60
            while not _is_up(number):
                assert time.monotonic() < end
                time.sleep(0.1)
            time.sleep(10)  # its processes load what pages ask for
            yield number
        finally:
            server.terminate()


def _is_up(port):
    try:
        with urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


class Session:
    """A browser's part: it asks for pages, and again for what shows progress."""

    def __init__(self, socket):
        self.socket = socket
        self._request = "", ""
        self._shows_progress = set()

    async def shown(self, page, query, mark):
        """Ask for a page; seconds until what has the ``mark`` in it is there."""
        begin = time.monotonic()
        self._request = page, query
        await self._ask()
        begun = False
        while True:
            kind, content = await self._next()
            begun = begun or kind == "new_session"
            if begun and kind == "delta" and mark in content:
                return time.monotonic() - begin

    async def looks(self, seconds):
        """Look at what is there, which is drawn on meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await self._next()

    async def _next(self):
        """What comes next, its kind and its bytes; progress is requested again."""
        from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

        try:
            content = await asyncio.wait_for(self.socket.recv(), 0.4)
        except TimeoutError:
            for fragment in self._shows_progress:
                await self._ask(fragment)
            return "nothing", b""
        message = ForwardMsg.FromString(content)
        kind = message.WhichOneof("type")
        if kind == "auto_rerun":
            self._shows_progress.add(message.auto_rerun.fragment_id)
        elif message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN:
            self._shows_progress.clear()  # it is there: the whole page follows
        return kind, content

    async def _ask(self, fragment=""):
        from streamlit.proto.BackMsg_pb2 import BackMsg

        message = BackMsg()
        message.rerun_script.page_name, message.rerun_script.query_string = self._request
        message.rerun_script.fragment_id = fragment
        message.rerun_script.is_auto_rerun = bool(fragment)
        await self.socket.send(message.SerializeToString())


async def _session(port, ask, end, found):
    from websockets.asyncio.client import connect

    address = f"ws://127.0.0.1:{port}/_stcore/stream"
    async with connect(address, subprotocols=["streamlit"], max_size=None) as opened:
        session = Session(opened)
        while time.monotonic() < end:
            await ask(session, found)


async def _light(session, found):
    query = f"set=run.seed={random.randrange(10**9)}&set=run.steps=20"
    await session.looks(random.uniform(0, 2 * THINKS_S))
    found.append(await session.shown("", query, b"dp-row"))


async def _heavy(session, found):
    query = f"{LONG}&{JITTER}&set=run.seed={random.randrange(10**9)}"
    found.append(await session.shown("compare", query, b"dp-verdict"))


async def _all(port):
    """Seconds that light sessions waited, and heavy ones."""
    light_s, heavy_s = [], []
    end = time.monotonic() + SECONDS
    requested = [_session(port, _light, end, light_s) for _ in range(LIGHT)]
    requested += [_session(port, _heavy, end, heavy_s) for _ in range(HEAVY)]
    running = [asyncio.create_task(each) for each in requested]
    await asyncio.wait(running[:LIGHT], timeout=SECONDS + 60)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return light_s, heavy_s


def test_light_sessions_beside_heavy_ones(port, measured):
    light_s, _ = asyncio.run(_all(port))
    assert len(light_s) >= LIGHT // 2
    scale = f"{LIGHT} light, {HEAVY} heavy"
    measured("dashboard, a light session's wait", f"{scale}, 95 %", np.quantile(light_s, 0.95))
    measured("dashboard, a light session's wait", f"{scale}, median", np.median(light_s), limit=2)
