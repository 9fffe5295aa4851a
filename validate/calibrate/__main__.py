"""``python -m validate.calibrate OUTPUT``: measures the whole plan of collectives and records it.

It needs root and ten minutes of an otherwise idle machine: all ranks share its processors.
"""

import sys
from pathlib import Path

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate
from dpsim.commands.progress import progress
from validate.calibrate.measurement import measure
from validate.calibrate.plan import full_plan
from validate.microbench.machine import machine, provenance
from validate.records import RunRecord, RunRecords, save_run_records


def main(output: Path) -> None:
    """Measure and write. Raises DpsimError; earlier measurements are written even then."""
    plan = full_plan()
    records: list[RunRecord] = []
    try:
        with progress("measuring", len(plan)) as done:
            for record in measure(plan, done):
                records.append(record)  # kept if a later one fails
    finally:
        known = {key: value for key, value in machine().items() if key != "host"}
        save_run_records(
            output, RunRecords(machine=known, provenance=provenance(), runs=tuple(records))
        )
        narrate(f"wrote {len(records)} of {len(plan)} cases to {output}")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except DpsimError as error:
        sys.exit(str(error))
