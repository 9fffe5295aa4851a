"""Where measured collectives come from: files of records, microbenchmarks' run files, or the testbed itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpsim.errors import DpsimError, ScenarioError
from dpsim.scenario.document import Document
from dpsim.scenario.loader import validate
from dpsim.topology import TestbedConfig
from dpsim.workload.profile import read_file
from validate.calibrate.cases import LIBRARY, CollectiveCase
from validate.run_record import RunRecord, load_run_records
from validate.testbed import load_testbed

_MICROBENCH = b'"kind": "microbench"'
_LIBRARY = "library"  # what microbenchmarks call the backend's own algorithm
_KEYS = ("hosts", "rate", "mtu")


def read_records(path: Path, testbed: TestbedConfig | None) -> list[RunRecord]:
    """The records of a file; of microbenchmarks, its collectives, which were measured on ``testbed``. Raises DpsimError."""
    if path.suffix != ".gz" and _MICROBENCH in read_file(path)[:4096].replace(b'"kind":"', b'"kind": "'):
        return list(_of_microbenchmarks(path, testbed))
    return list(load_run_records(path).runs)


def parse_testbed(text: str) -> TestbedConfig:
    """The testbed of a YAML file, or of ``hosts=4,rate=100 Mbit/s``. Raises ScenarioError or DpsimError."""
    if text.endswith((".yaml", ".yml")):
        return load_testbed(text)
    said: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not equals or key not in _KEYS:
            raise DpsimError(
                f"--testbed must be a YAML file, or {', '.join(f'{one}=...' for one in _KEYS)}, but got {part.strip()!r}"
            )
        said[key] = int(value) if key != "rate" and value.isdecimal() else value
    try:
        return validate(Document.of(said, "--testbed"), TestbedConfig)
    except ScenarioError as error:
        raise DpsimError(str(error)) from None


def _of_microbenchmarks(path: Path, testbed: TestbedConfig | None) -> Iterator[RunRecord]:
    from validate.microbench import load_run_file

    run = load_run_file(path)
    rows = run.of("collectives")
    if not rows:
        raise DpsimError(f"{path}: must have collectives, but has {', '.join(run.what)}")
    if testbed is None:
        raise DpsimError(f"{path}: must come with --testbed, which says the rates of the links that it was measured on")
    if testbed.hosts != len(run.ranks):
        raise DpsimError(f"{path}: must have a rank on each of {testbed.hosts} hosts, but has {len(run.ranks)} ranks")
    for row in rows:
        prefix = "in_place_" if row["times_s"] is None else ""
        name = LIBRARY if row["algorithm"] == _LIBRARY else row["algorithm"]
        case = CollectiveCase(testbed=testbed, operation=row["operation"], algorithm=name, bytes=row["bytes"])
        yield case.record(row[f"{prefix}times_s"], notes=("ranks began when a barrier let them, not together",))
