"""The matrix of ``torch.distributed``'s backends, operations and devices that work here.

Found by running them on two ranks. Cells that cannot be tried on this machine are taken from
torch's documentation, and marked so. We have not tried cells with CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dpsim.base.errors import DpsimError
from validate.ranks.launch import RunFailed, launch, loopback
from validate.ranks.program import program

Verdict = Literal["works", "fails", "not tried"]
Edition = Literal["classic", "today"]

BACKENDS = ("gloo", "nccl", "mpi")
DEVICES = ("cpu", "cuda")
COLLECTIVES = (
    "broadcast",
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "barrier",
)
OPERATIONS = ("send", "recv", *COLLECTIVES)
DOCUMENTATION = "https://docs.pytorch.org/docs/stable/distributed.html#backends"

_YES, _NO, _MAYBE = "works", "does not work", "works where MPI was built for CUDA"
_EXCEPTIONS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("gloo", "cpu"): {},
    ("gloo", "cuda"): {"send": _NO, "recv": _NO, "barrier": _NO},
    ("nccl", "cpu"): dict.fromkeys(OPERATIONS, _NO),
    ("nccl", "cuda"): {},
    ("mpi", "cpu"): {"reduce_scatter": _NO},
    ("mpi", "cuda"): {**dict.fromkeys(OPERATIONS, _MAYBE), "reduce_scatter": _NO},
}

# The same table in the documentation of torch 2.0, from which backends are still taught.
CLASSIC = "https://pytorch.org/docs/2.0/distributed.html#backends"
_CLASSIC: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("gloo", "cpu"): {"reduce_scatter": _NO, "all_to_all": _NO},
    ("gloo", "cuda"): {
        **dict.fromkeys(OPERATIONS, _NO),
        "broadcast": _YES,
        "all_reduce": _YES,
    },
    ("nccl", "cpu"): dict.fromkeys(OPERATIONS, _NO),
    ("nccl", "cuda"): {},
    ("mpi", "cpu"): {"reduce_scatter": _NO},
    ("mpi", "cuda"): {**dict.fromkeys(OPERATIONS, _MAYBE), "reduce_scatter": _NO},
}
_START_S = 45.0  # for interpreters to start and ranks to meet


@dataclass(frozen=True, slots=True)
class Cell:
    """One operation of one backend on one kind of tensor.

    ``detail`` is the first line of the error, or why it was not tried; ``documented`` is the
    verdict of torch's current documentation, ``classic`` that of torch 2.0's.
    """

    backend: str
    device: str
    operation: str
    verdict: Verdict
    detail: str
    documented: str
    classic: str

    def verdict_of(self, edition: Edition) -> str:
        """Return the verdict of an edition of torch's documentation."""
        return self.classic if edition == "classic" else self.documented

    def to_json(self) -> dict[str, str]:
        """Return its fields by name."""
        return asdict(self)


Done = Callable[[int], None]


def documented(backend: str, device: str, operation: str) -> str:
    """Return the verdict of torch's documentation on an operation: see `DOCUMENTATION`."""
    return _EXCEPTIONS[backend, device].get(operation, _YES)


def classic(backend: str, device: str, operation: str) -> str:
    """Return the verdict of the classic edition on an operation: see `CLASSIC`."""
    return _CLASSIC[backend, device].get(operation, _YES)


def pairs() -> Iterator[tuple[str, str]]:
    """Return every backend with every device."""
    return ((backend, device) for backend in BACKENDS for device in DEVICES)


def matrix(ranks: int = 2, timeout: float = 20.0, done: Done = lambda count: None) -> list[Cell]:
    """Return every cell, tried on ``ranks`` ranks on loopback, each within ``timeout`` s.

    ``done`` is called with the number of cells so far.
    """
    cells: list[Cell] = []
    for backend, device in pairs():
        reason = why_not(backend, device, ranks)
        if reason:
            cells += _not_tried(backend, device, reason)
        else:
            cells += _try_operations(backend, device, ranks, timeout)
        done(len(cells))
    return cells


def why_not(backend: str, device: str, ranks: int) -> str:
    """Return why ``ranks`` ranks on this machine cannot try a backend on a device.

    Empty if they can.
    """
    import torch

    from validate.ranks.processes import why_missing

    missing = why_missing(backend)
    if missing:
        return missing
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cuda" and not gpus:
        return "torch sees no GPU here"
    if backend == "nccl" and gpus < ranks:
        return f"{ranks} ranks need a GPU each, and there are {gpus}"
    return "its ranks are started by mpirun" if backend == "mpi" else ""


def here(timeout: float = 20.0) -> list[Cell]:
    """Return every cell, tried by the ranks of the run that this process belongs to (torchrun's).

    All of them must call this. Raises DpsimError for a run of one rank.
    """
    from validate.backends.cells import try_operations
    from validate.ranks.processes import World, choose, meet, place_from_environment

    place = place_from_environment()
    if place.size < 2:
        raise DpsimError(f"backends must be tried by at least 2 ranks, but got {place.size}")
    store = meet(place, 3 * timeout)
    cells: list[Cell] = []
    for backend, device in pairs():
        reason = why_not(backend, device, place.local_size)
        if reason:
            cells += _not_tried(backend, device, reason)
            continue
        chosen, face = choose(place, backend, device)
        face.use()
        world = World(place, chosen, face, store, timeout)
        cells += [_answer(backend, device, *found) for found in try_operations(world, OPERATIONS)]
    return cells


def _not_tried(backend: str, device: str, reason: str) -> list[Cell]:
    return [_cell(backend, device, operation, "not tried", reason) for operation in OPERATIONS]


def _try_operations(backend: str, device: str, ranks: int, timeout: float) -> Iterator[Cell]:
    """Start ranks for all operations; restart them after one that a rank did not survive."""
    left = list(OPERATIONS)
    # Try as many operations per launch as it survives, since torch takes seconds to load.
    while left:
        answers, ended = _launch(backend, device, ranks, timeout, left)
        for operation, problem in answers.items():
            yield _answer(backend, device, operation, problem)
            left.remove(operation)
        if ended and left:
            # The ranks try operations in order, so they ended in the first one without an answer.
            yield _answer(backend, device, left.pop(0), ended)


def _launch(
    backend: str, device: str, ranks: int, timeout: float, left: Sequence[str]
) -> tuple[dict[str, str], str]:
    """Return answers by operation, and how the ranks ended if they failed."""
    command = program("validate.backends.cells", backend, device, str(timeout), *left)
    # An operation may use up its group's timeout, and then the store's, which is three of them.
    limit_s = _START_S + 4 * timeout * len(left)
    ended = ""
    try:
        rows = launch(
            command, loopback(ranks), timeout_s=limit_s, preload=["validate.collectives"]
        ).rows
    except RunFailed as failed:
        ended = f"rank {failed.rank} {failed.reason}{_last(failed.last_words)}"
        rows = failed.run.rows
    # An operation fails if it fails on one of its ranks.
    answers: dict[str, str] = {}
    for row in rows:
        answers[row["operation"]] = answers.get(row["operation"]) or row["problem"]
    if not ended and set(answers) != set(left):
        ended = "the ranks ended without an answer"
    return answers, ended


def _last(words: str) -> str:
    lines = words.strip().splitlines()
    return f": {lines[-1]}" if lines else ""


def _answer(backend: str, device: str, operation: str, problem: str) -> Cell:
    return _cell(backend, device, operation, "fails" if problem else "works", problem)


def _cell(backend: str, device: str, operation: str, verdict: Verdict, detail: str) -> Cell:
    expected = documented(backend, device, operation)
    return Cell(
        backend, device, operation, verdict, detail, expected, classic(backend, device, operation)
    )


def to_json(cells: Sequence[Cell], edition: Edition) -> dict[str, Any]:
    """Return the matrix as JSON, each cell with the verdict of ``edition``."""
    return {
        "schema_version": 1,
        "kind": "validate-backends",
        "edition": edition,
        "documentation": DOCUMENTATION,
        "classic": CLASSIC,
        "rows": [{**cell.to_json(), "said": cell.verdict_of(edition)} for cell in cells],
    }
