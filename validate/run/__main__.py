"""``python -m validate.run PLAN OUTPUT [TEXT...]``.

Runs a plan's cases (those that contain a TEXT) and records them. Records that OUTPUT already holds
are kept, except those of cases that are run again.
"""

import sys
from pathlib import Path

from dpsim.base.errors import FailedError
from dpsim.base.provenance import provenance
from dpsim.base.terminal import narrate
from validate.microbench.machine import machine
from validate.records import RunRecords, load_run_records, save_run_records
from validate.run.plan import load_plan, run_plan


def main(plan: Path, output: Path, chosen: list[str]) -> None:
    """Run, and write after every case. Raises FailedError at the end if a run failed."""
    records = (
        {record.name: record for record in load_run_records(output).runs} if output.exists() else {}
    )
    failures: list[str] = []
    for record in run_plan(load_plan(plan), chosen, failures.append):
        records[record.name] = record
        error = record.error
        assert error is not None
        narrate(
            f"{record.name}: {record.median_s:.4f} s, predicted "
            f"{error:+.1%}{''.join(f' ({note})' for note in record.notes)}"
        )
        known = {key: value for key, value in machine().items() if key != "host"}
        runs = tuple(records.values())
        save_run_records(output, RunRecords(machine=known, provenance=provenance(), runs=runs))
    if failures:
        raise FailedError("\n".join(failures))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
