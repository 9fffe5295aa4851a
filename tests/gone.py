"""Whether what a run started is gone."""

import time
from pathlib import Path


def runs(pid):
    """Whether a process runs: a zombie, which only waits for its parent to ask, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def soon(condition, seconds=30.0):
    """Whether ``condition()`` becomes true within ``seconds``: the machine may be busy."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
