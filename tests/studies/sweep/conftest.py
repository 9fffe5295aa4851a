"""Files of the tiny scenario, and a sweep of it."""

import pytest
from tiny_sweeps import SWEEP, TINY

from dpsim import sweep


@pytest.fixture
def write(tmp_path):
    """Writes the tiny scenario, with a sweep of its own (YAML in one line), and answers the path."""

    def file(sweep="", name="tiny.yaml", text=TINY):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + (f"sweep: {sweep}\n" if sweep else ""))
        return path

    return file


@pytest.fixture
def swept(write, tmp_path):
    """A sweep of which some points failed, by one worker."""
    return sweep(write(SWEEP), tmp_path / "out", workers=1)
