"""How long the command line takes from a cold start, interpreter and imports included, in seconds
of the processor.
"""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("words", "limit", "times"),
    [
        (["run", "scenarios/quickstart.yaml"], 1.0, 7),
        (["--help"], 0.4, 7),
        (["explain", "scenarios/quickstart.yaml"], 2.5, 5),
        (["tune", "scenarios/quickstart.yaml"], 20, 1),
    ],
)
def test_a_cold_start(measured, words, limit, times):
    taken = []
    for _ in range(times):
        begin = spent()
        subprocess.run(
            [Path(sys.executable).with_name("dpsim"), *words],
            check=True,
            capture_output=True,
            cwd=ROOT,
        )
        taken.append(spent() - begin)
    measured(f"dpsim {' '.join(words)}", f"from cold, least of {times}", min(taken), limit=limit)


def spent():
    """Seconds of the processor that processes started here have taken."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime
