"""``python -m validate.elastic OUTPUT.json``: kill jobs, and record how their time is divided.

The restart time comes from the first job; predictions are tested on the others.
"""

import json
import os
import sys
from pathlib import Path

from dpsim.base.provenance import provenance
from dpsim.base.terminal import narrate
from validate.elastic.account import Job, compare, mean_restart
from validate.elastic.launch import run
from validate.microbench.machine import machine
from validate.ranks.launch import realtime_words

JOBS = (
    Job(steps=120, every=10, kills=(2.5, 4.2, 1.7)),
    Job(steps=120, every=10, kills=(3.3, 1.0, 5.1)),
    Job(steps=150, every=30, checkpoint_s=0.5, kills=(2.6, 5.9, 4.4)),
    Job(steps=120, every=5, checkpoint_s=0.1, kills=(0.4, 6.3, 2.2)),
)


def main(output: Path) -> None:
    """Run all jobs, with real-time scheduling if permitted, and write after the last."""
    before, _ = realtime_words()
    load = os.getloadavg()[0]
    jobs = [run(job, before) for job in JOBS]
    known = mean_restart(jobs[0])
    for each in jobs[1:]:
        comparison = compare(each, known)
        points = 100 * comparison.useful_error
        narrate(f"recovery {comparison.recovery_error:+.1%}, useful share {points:+.1f} points")
    record = {
        "machine": {key: value for key, value in machine().items() if key != "host"},
        "load": [load, os.getloadavg()[0]],
        "real_time": bool(before),
        "provenance": provenance(),
        "jobs": [each.model_dump(mode="json") for each in jobs],
    }
    output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
