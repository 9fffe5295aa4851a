"""What ranks have imported before they are forked leaves nothing behind that a fork would break."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MISSING = find_spec("torch") is None and os.environ.get("CI") != "true"
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(MISSING, reason="torch is not installed: pip install -e '.[validate]'"),
]

ROOT = Path(__file__).parents[4]

# Imports what the command line names, with a torch that says that there are GPUs, and who asked.
PROGRAM = """
import json, os, sys, traceback
import torch

asked = []

def ask(*words):
    asked.append(traceback.format_stack()[-2])
    return True

for name in ("is_available", "device_count", "init", "_lazy_init", "get_device_properties"):
    setattr(torch.cuda, name, ask)
for module in sys.argv[1:]:
    __import__(module)
print(json.dumps([len(os.listdir("/proc/self/task")), asked]))
"""


def preloaded():
    """Every module that a run of the product preloads, by the places that say so."""
    for file in (ROOT / "validate").rglob("*.py"):
        own = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for names in re.findall(r"preload=\[(.*?)\]", file.read_text()):
            for name in names.split(", "):
                yield {"__name__": own, "IMPORTED_LATE": "torch._dynamo"}.get(name, name.strip('"'))


@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux alone")
def test_it_starts_no_thread_and_asks_nothing_of_a_gpu():
    modules = sorted({*preloaded()} - {"package.module"})
    assert {"validate.emulate.ranks", "validate.node.run", "validate.training.proof"} < {*modules}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *modules],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    threads, asked = json.loads(done.stdout)
    assert threads == 1
    assert asked == []
