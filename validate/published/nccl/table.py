"""Measurement tables as curves, for fits and for validation.

A case is one curve (machine, operation, data type, GPUs, in place or not). The specification regime
leaves out a whole machine. Times are in seconds, sizes in bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.network.libraries.nccl import (
    OPS,
    NcclMachine,
    Note,
    Work,
    describe,
    describe_system,
    dtype_bytes,
    work_for,
)
from validate.published.tables.csv_file import Row, read_rows

Kind = Literal["nccl-tests", "nccl-single-node", "vtrain-allreduce"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_REQUIRED: dict[Kind, tuple[str, ...]] = {
    "nccl-tests": (
        "case_id",
        "machine",
        "nodes",
        "gpus_per_node",
        "gpu",
        "intra_link",
        "inter_link",
        "bytes",
        "time_us",
    ),
    "nccl-single-node": ("system", "nccl_version", "op", "dtype", "num_gpus", "bytes", "time_us"),
    "vtrain-allreduce": ("gpu", "num_gpus", "bytes", "time_us"),
}
# Columns that identify a row of a table, in the order of the answer.
_IDENTITY: dict[Kind, tuple[str, ...]] = {
    "nccl-tests": (
        "case_id",
        "machine",
        "collective",
        "op",
        "dtype",
        "algo_proto",
        "n_ranks",
        "quality",
    ),
    "nccl-single-node": ("system", "nccl_version", "op", "dtype", "num_gpus"),
    "vtrain-allreduce": ("gpu", "num_gpus"),
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of a table."""

    line: int
    nbytes: float
    seconds: float


@dataclass(slots=True)
class Case:
    """One curve: machine, operation, the original rows, and (bytes, seconds) by ascending size."""

    name: str
    machine_name: str
    machine: NcclMachine
    op: str
    element_bytes: int
    identity: dict[str, str]
    quality: str = "ok"
    notes: tuple[Note, ...] = ()
    rows: list[Measurement] = field(default_factory=list)
    nbytes: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def work(self) -> Work:
        """Return the rows of this case, with the branch that NCCL would choose for each."""
        return work_for(
            self.machine, self.op, self.element_bytes, np.asarray(self.nbytes, dtype=np.float64)
        )

    def merge(self) -> None:
        """Set the curve from the rows: a size measured several times gets the median."""
        sizes, times = (
            np.array([row.nbytes for row in self.rows]),
            np.array([row.seconds for row in self.rows]),
        )
        unique = np.unique(sizes)
        self.nbytes = [float(size) for size in unique]
        self.times = [float(np.median(times[sizes == size])) for size in unique]

    @property
    def fingerprint(self) -> str:
        """A hash that identifies this curve whatever its machine is called."""
        pairs = ";".join(
            f"{size:.0f}:{time * 1e6:.4g}"
            for size, time in zip(self.nbytes, self.times, strict=True)
        )
        return hashlib.sha256(pairs.encode()).hexdigest()[:12]


def read_table(path: Path, kind: Kind) -> list[Case]:
    """Return the cases of a table. Raises DpsimError with line and column if it is unusable."""
    cases: dict[tuple[str, ...], Case] = {}
    for row in read_rows(path, _REQUIRED[kind]):
        measurement = Measurement(row.line, row.positive("bytes"), row.positive("time_us") * 1e-6)
        identity = {column: row.text(column) for column in _IDENTITY[kind] if column in row.values}
        key = tuple(identity.values())
        if key not in cases:
            cases[key] = _case(row, kind, identity)
        cases[key].rows.append(measurement)
    for case in cases.values():
        case.merge()
    return list(cases.values())


def kind_of(path: Path) -> Kind:
    """Return the kind of a table from its columns; raises DpsimError if none fits."""
    with path.open(encoding="utf-8-sig") as stream:
        columns = set(stream.readline().strip().split(","))
    for kind, required in _REQUIRED.items():
        if columns >= set(required):
            return kind
    raise DpsimError(
        f"{path}:1: must have the columns of one of {', '.join(KINDS)}, but got "
        f"{', '.join(sorted(columns))}"
    )


def _case(row: Row, kind: Kind, identity: dict[str, str]) -> Case:
    try:
        return _CASES[kind](row, identity)
    except DpsimError as error:
        if str(error).startswith(str(row.path)):
            raise
        raise DpsimError(f"{row.path}:{row.line}: {error}") from None


def _nccl_tests_case(row: Row, identity: dict[str, str]) -> Case:
    # Called only for their errors, which name line and column: `describe` reads them again below.
    row.count("nodes")
    row.count(
        "gpus_per_node" if row.text("gpus_per_node") or not row.text("n_ranks") else "n_ranks"
    )
    described = describe(row.values)
    operation = _operation(row)
    size, notes = _element(row)
    name = " ".join(
        text
        for column, text in identity.items()
        if column in ("case_id", "collective", "op", "algo_proto", "n_ranks") and text
    )
    quality = row.text("quality") or "ok"
    return Case(
        name,
        row.text("machine") or row.text("case_id"),
        described.machine,
        operation,
        size,
        identity,
        quality,
        described.notes + notes,
    )


def _operation(row: Row) -> str:
    """Return the operation named by ``collective``, or by ``op``, which may also be a place."""
    collective = row.text("collective")
    if collective:
        operation = _named_operation(collective)
        if operation is None:
            raise row.error("collective", f"must be one of {', '.join(OPS)}")
        return operation
    place = _letters(row.text("op"))
    operation = "all_reduce" if place in ("", "inplace", "outofplace") else _named_operation(place)
    if operation is None:
        raise row.error(
            "op", f"must be in-place or out-of-place (of an all-reduce), or one of {', '.join(OPS)}"
        )
    return operation


def _named_operation(text: str) -> str | None:
    """Return the operation of a name in any spelling: "AllReduce", "all-reduce", "all_reduce"."""
    return next((name for name in OPS if _letters(name) == _letters(text)), None)


def _letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalpha())


def _element(row: Row) -> tuple[int, tuple[Note, ...]]:
    """Return the bytes of an element; an unknown data type is noted."""
    size = dtype_bytes(row.text("dtype"))
    return (
        (4, (Note("dtype", row.text("dtype"), "4 bytes an element"),))
        if size is None
        else (size, ())
    )


def _system_case(row: Row, identity: dict[str, str]) -> Case:
    row.count("num_gpus")
    described = describe_system(row.values)
    operation = _named_operation(row.text("op"))
    if operation is None:
        raise row.error("op", f"must be one of {', '.join(OPS)}")
    size, notes = _element(row)
    name = " ".join(identity.values())
    return Case(
        name,
        row.text("system"),
        described.machine,
        operation,
        size,
        identity,
        notes=described.notes + notes,
    )


def _vtrain_case(row: Row, identity: dict[str, str]) -> Case:
    system = {"system": row.text("gpu"), "num_gpus": str(row.count("num_gpus")), "nccl_version": ""}
    described = describe_system(system)
    name = f"vtrain {row.text('gpu')}"
    return Case(
        f"{name} {row.text('num_gpus')}",
        name,
        described.machine,
        "all_reduce",
        4,
        identity,
        notes=described.notes,
    )


# How to make a case of a row, by kind of table.
_CASES: Mapping[Kind, Callable[[Row, dict[str, str]], Case]] = {
    "nccl-tests": _nccl_tests_case,
    "nccl-single-node": _system_case,
    "vtrain-allreduce": _vtrain_case,
}


def concatenate(works: Iterable[Work]) -> Work:
    """Join the rows of many cases."""
    parts = list(works)
    joined = {
        name: np.concatenate([getattr(work, name) for work in parts])
        for name in Work.__dataclass_fields__
    }
    return Work(**joined)
