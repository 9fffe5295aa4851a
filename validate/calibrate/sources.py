"""Sources of measurements: files of records, and microbenchmarks' run files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.scenario import Document, validate
from dpsim.topology import TestbedConfig
from dpsim.workload import read_file
from validate.calibrate.cases import LIBRARY, CollectiveCase
from validate.calibrate.copies import Copies, copies_of
from validate.calibrate.messages import Messages, messages_of
from validate.microbench.run_file import RunFile, load_run_file
from validate.microbench.settings import LIBRARY as OF_BACKEND
from validate.ranks.testbed import load_testbed
from validate.records import RunRecord, load_run_records

_MICROBENCH = b'"kind": "microbench"'
_KEYS = ("hosts", "rate", "mtu")
# The benchmarks that calibration reads; the last is only used together with layers.
USED = ("collectives", "point-to-point", "copies", "layers", "optimizer")


@dataclass(frozen=True, slots=True)
class Measurements:
    """The content of files: collectives as records, messages, copies, and runs with layers.

    ``counts`` is the number of measured cases of each file.
    """

    records: list[RunRecord] = field(default_factory=list)
    messages: list[Messages] = field(default_factory=list)
    copies: list[Copies] = field(default_factory=list)
    runs: list[RunFile] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.records or self.messages or self.copies or self.runs)


def read_measurements(paths: Sequence[Path], testbed: TestbedConfig | None) -> Measurements:
    """Read files of records and microbenchmarks' run files, the latter from ``testbed``.

    Raises DpsimError.
    """
    found = Measurements()
    for path in paths:
        if _is_microbenchmark(path):
            found.counts[str(path)] = _take(path, testbed, found)
        else:
            records = list(load_run_records(path).runs)
            found.records.extend(records)
            found.counts[str(path)] = len(records)
    return found


def _take(path: Path, testbed: TestbedConfig | None, found: Measurements) -> int:
    """Add the content of a run file, and return the number of its rows used."""
    run = load_run_file(path)
    used = {what: len(run.of(what)) for what in USED}
    if not any(used[what] for what in USED if what != "optimizer"):
        raise DpsimError(
            f"{path}: must have {', '.join(USED[:-2])} or {USED[-2]}, but has {', '.join(run.what)}"
        )
    if used["collectives"]:
        found.records.extend(_collective_records(run, _checked(path, testbed, len(run.ranks))))
    if used["point-to-point"]:
        found.messages.extend(messages_of(run, _checked(path, testbed, len(run.ranks))))
    found.copies.extend(copies_of(run))
    if used["layers"] or used["optimizer"]:
        found.runs.append(run)
    return sum(used.values())


def _is_microbenchmark(path: Path) -> bool:
    # Only records are written compressed.
    if path.suffix == ".gz":
        return False
    # By the start of the text: records may be megabytes, and are parsed once they are recognised.
    begin = read_file(path)[:4096]
    return _MICROBENCH in begin.replace(b'"kind":"', b'"kind": "')


def _checked(path: Path, testbed: TestbedConfig | None, ranks: int) -> TestbedConfig:
    if testbed is None:
        raise DpsimError(
            f"{path}: must come with --testbed, which says the rates of the links that it was "
            "measured on"
        )
    if testbed.hosts != ranks:
        raise DpsimError(
            f"{path}: must have a rank on each of {testbed.hosts} hosts, but has {ranks} ranks"
        )
    return testbed


def parse_testbed(text: str) -> TestbedConfig:
    """Return the testbed of a YAML file, or of ``hosts=4,rate=100 Mbit/s``.

    Raises ScenarioError or DpsimError.
    """
    if text.endswith((".yaml", ".yml")):
        return load_testbed(text)
    fields: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not equals or key not in _KEYS:
            raise DpsimError(
                f"--testbed must be a YAML file, or {', '.join(f'{one}=...' for one in _KEYS)}, "
                f"but got {part.strip()!r}"
            )
        fields[key] = int(value) if key != "rate" and value.isdecimal() else value
    try:
        return validate(Document.of(fields, "--testbed"), TestbedConfig)
    except ScenarioError as error:
        raise DpsimError(str(error)) from None


def _collective_records(run: RunFile, testbed: TestbedConfig) -> Iterator[RunRecord]:
    for row in run.of("collectives"):
        in_place_alone = row["times_s"] is None
        times_s = row["in_place_times_s"] if in_place_alone else row["times_s"]
        name = LIBRARY if row["algorithm"] == OF_BACKEND else row["algorithm"]
        case = CollectiveCase(
            testbed=testbed, operation=row["operation"], algorithm=name, bytes=row["bytes"]
        )
        yield case.record(times_s, notes=("ranks began when a barrier let them, not together",))
