"""How long the command line takes from a cold start, interpreter and imports included, in seconds
of the processor.

Modules are compiled and shipped files parsed by the first start, as on any machine where dpsim was
used before.
"""

import os
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
        (["run", "scenarios/quickstart.yaml"], 0.8, 7),
        (["--help"], 0.4, 7),
        (["explain", "scenarios/quickstart.yaml"], 2.2, 5),
        (["tune", "scenarios/quickstart.yaml"], 20, 2),
        (["scale", "scenarios/quickstart.yaml", "--set", "run.engine=events"], 2, 3),
        (["goodput", "scenarios/disturbed.yaml", "--days", "365"], 2, 3),
    ],
)
def test_a_cold_start(measured, words, limit, times, tmp_path):
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    taken = []
    for _ in range(times):
        begin = spent()
        subprocess.run(
            [Path(sys.executable).with_name("dpsim"), *words],
            check=True,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, **kept},
        )
        taken.append(spent() - begin)
    measured(f"dpsim {' '.join(words)}", f"from cold, least of {times}", min(taken), limit=limit)


def spent():
    """Seconds of the processor that processes started here have taken."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime
