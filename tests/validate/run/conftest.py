"""The testbed's model with times that are a third of its own: runs that take less, and tell as much."""

import json
from pathlib import Path

import pytest

SMALL = Path(__file__).parents[3] / "scenarios" / "testbed" / "small.json"


@pytest.fixture(scope="session")
def brisk(tmp_path_factory):
    """What to set in a scenario for that model: a step computes for 51 ms."""
    content = json.loads(SMALL.read_text())
    times = content["measured"]
    for name in ("forward_s", "backward_s"):
        times[name] = [[seconds / 3 for seconds in layers] for layers in times[name]]
    times["optimizer_s"] = [seconds / 3 for seconds in times["optimizer_s"]]
    path = tmp_path_factory.mktemp("brisk") / "brisk.json"
    path.write_text(json.dumps(content))
    return f"workload.model={{profile: {path}}}"
