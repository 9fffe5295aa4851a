"""How far calibrated curves of NCCL are off, and how far all other sizes of each would leave them.

``python -m tools.refits.nccl_calibrated`` (about a minute) prints both, mean over machines, for one
node and for several. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsim.base.terminal import show
from tools.refits.nccl_refit import training_cases
from validate.published.nccl import (
    MIB,
    Score,
    Shipped,
    by_other_sizes,
    calibrated,
    mean_over_machines,
    scored,
)


def main() -> None:
    """Calibrate each machine by every fourth of its sizes, with constants that never saw it."""
    scores = _scores()
    for heading, several in (("one node", False), ("several nodes", True)):
        part = [score for score in scores if (score.case.machine.nodes > 1) == several]
        rows = [score for score in part if score.counts]
        machines = len({score.case.machine_name for score in rows})
        show(f"{heading}, {machines} machines: {_error(rows)}")
        show(f"  by all other sizes of a curve: {_error(by_other_sizes(part))}")


def _scores() -> list[Score]:
    cases, source = training_cases(), Shipped()
    scores = []
    for machine in sorted({case.machine_name for case in cases}):
        own = [case for case in cases if case.machine_name == machine]
        known, _ = source.constants(machine)
        for predicted in calibrated(own, known, source.kin(machine)):
            scores += scored(predicted, "left out")
    return scores


def _error(rows: Sequence[Score]) -> str:
    """All sizes / from 1 MiB."""
    large = [row for row in rows if row.nbytes >= MIB]
    return f"{mean_over_machines(rows):.1%} / {mean_over_machines(large):.1%}"


if __name__ == "__main__":
    main()
