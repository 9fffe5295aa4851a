"""Methods on ranks started for them, and the proof that each trains as it should.

torch's DDP and, if there are GPUs, ``nn.DataParallel`` are run for comparison. The expected result
of a run is computed in one process from its log alone (`replay`): losses and weights must be equal.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError
from validate.ranks.launch import launch, loopback, report_connected
from validate.ranks.processes import IMPORTED_LATE, joined
from validate.ranks.program import program
from validate.training.rank_record import RankRecord
from validate.training.replay import replay
from validate.training.settings import Training
from validate.training.train import METHODS, method_named, train

BESIDE = ("ddp", "data-parallel")  # torch's own, for comparison
_TIMEOUT_S = 600.0
# Rounding of sums in another order, by the format of weights; codecs work in float32.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4}


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of one method: mean losses of its steps, seconds, and the error.

    ``off`` is the largest difference of losses and weights from the replay of its log, ``equal``
    whether it is mere rounding; ``not_run`` is the reason if there is no result.
    """

    method: str
    losses: tuple[float, ...]
    step_s: float
    parts_s: dict[str, float]
    off: float
    equal: bool
    not_run: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the proof as a row."""
        return {**asdict(self), "losses": list(self.losses), "not_run": self.not_run or None}


def prove(
    names: Sequence[str],
    training: Training,
    *,
    ranks: int = 4,
    device: str = "auto",
    backend: str = "auto",
) -> list[Proof]:
    """Run each of ``names``, DDP and nn.DataParallel, and compare each with its replay.

    Raises DpsimError for an unknown name, RunFailed if a rank fails.
    """
    chosen = list(dict.fromkeys([*names, *BESIDE]))
    for name in chosen:
        method_named(name).workers(ranks)  # raises if there are too few ranks
    with TemporaryDirectory() as folder:
        arguments = json.dumps([folder, chosen, training.model_dump(mode="json"), device, backend])
        launch(
            program(__name__, arguments),
            loopback(ranks),
            timeout_s=_TIMEOUT_S,
            preload=[__name__, IMPORTED_LATE],
        )
        parts = [Path(folder, str(rank)).read_bytes() for rank in range(ranks)]
        by_rank = [pickle.loads(part) for part in parts]  # nosec B301 - of this run's own ranks
    return [_proof(name, [own[name] for own in by_rank], training) for name in chosen]


def as_rank(text: str) -> None:
    """Run the methods on one rank, started by `prove`, and write its records."""
    folder, names, arguments, device, backend = json.loads(text)
    training = Training.model_validate(arguments)
    records = {}
    with joined(backend, device) as world:
        report_connected()
        for name in names:
            records[name] = train(name, world, training)
            world.barrier()
    (Path(folder) / str(world.rank)).write_bytes(pickle.dumps(records))


def _proof(name: str, records: Sequence[RankRecord], training: Training) -> Proof:
    method = method_named(name)
    if records[0].not_run:
        return Proof(name, (), 0.0, {}, 0.0, False, records[0].not_run)
    workers = [record for record in records if record.losses]
    # With backup workers, not all take the same number of steps.
    steps = min(len(record.losses) for record in workers)
    losses = np.mean([record.losses[:steps] for record in workers], axis=0)
    parts = {
        part: _mean_median(record.parts_s[part] for record in workers)
        for part in workers[0].parts_s
    }
    off = _off(method.kind, workers, records, training)
    tolerance = _TOLERANCE["float32" if method.in_float32 else training.precision]
    return Proof(
        name,
        tuple(losses.tolist()),
        _mean_median(record.step_s for record in workers),
        parts,
        off,
        off <= tolerance,
    )


def _mean_median(of_workers: Iterable[Sequence[float]]) -> float:
    """Return the mean over workers of each one's median over steps."""
    return float(np.mean([np.median(seconds) for seconds in of_workers]))


def _off(
    kind: str, workers: Sequence[RankRecord], records: Sequence[RankRecord], training: Training
) -> float:
    """Return the largest difference from the replay, of final weights and mean losses."""
    wanted = replay(method_named(kind), records, training)
    weights = max(float(np.abs(record.weights - wanted.weights).max()) for record in workers)

    losses = [record.losses for record in workers]
    steps = min(map(len, (*wanted.losses, *losses)))
    # Compare means, since one process on the whole batch has one loss and each worker its own.
    mean = np.mean([own[:steps] for own in wanted.losses], axis=0)
    own = np.mean([own[:steps] for own in losses], axis=0)
    return max(weights, float(np.abs(own - mean).max()))


def names_of(text: str) -> list[str]:
    """Return the methods in ``text``, separated by commas, or ``all``. Raises DpsimError."""
    if text == "all":
        return list(METHODS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise DpsimError(f"METHOD must be one of {', '.join(METHODS)}, or all, but got {text!r}")
    for name in names:
        METHODS[name]
    return names
