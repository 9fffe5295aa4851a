"""Search a space: exhaustively if it is small, otherwise by Optuna and around the best.

The sampler is Optuna's tree-structured Parzen estimator (Bergstra et al., "Algorithms for
hyper-parameter optimization", NeurIPS 2011), which treats the values as categories. After half of
the evaluations, the neighbours of the best choice so far, which differ from it in one value, are
tried in random order, until a better one replaces it: most of the remaining gain is there.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpsim.base.budget import Budget, check
from dpsim.base.errors import FailedError, how_to_install
from dpsim.studies.tune.dimension import Dimension
from dpsim.studies.tune.evaluator import Evaluation, Evaluator
from dpsim.studies.tune.space import Allowed

_SAMPLING_SHARE = 0.5  # share of the evaluations after which neighbours are tried
_STARTUP = 10  # random choices before the estimator is used
_MOST_STALE = 200  # suggestions in a row without a new choice
_MOST_TRIALS = 10  # suggestions per evaluation, so that the search ends even if most are impossible
_OPTUNA = f"optuna is needed to search a space too large to try whole; {how_to_install('tune')}"

Numbers = dict[str, int]


def report_each_best(
    evaluator: Evaluator,
    budget: Budget,
    total: int,
    progress: Callable[[str, int, int], None],
    say: Callable[[str], None],
) -> Callable[[str, int, int], None]:
    """Return ``progress`` that also says each new best of a search of ``total`` evaluations."""
    reported: Evaluation | None = None

    def report(what: str, done: int, of_it: int) -> None:
        nonlocal reported
        progress(what, done, of_it)
        best = evaluator.best
        if best is None or best is reported:
            return
        values = ", ".join(f"{path}={value}" for path, value in best.values.items())
        message = f"best: {evaluator.objective.words(best.result)} with {values}"
        if budget.stream(say, evaluator.count, total, message):
            reported = best

    return report


def evaluate_all(
    evaluator: Evaluator, progress: Callable[[int], None], allowed: Allowed | None = None
) -> None:
    """Evaluate every choice of the space, or of ``allowed`` values."""
    for done, choice in enumerate(evaluator.space.choices(allowed), 1):
        check()  # a choice that breaks a limit is not simulated, so time is checked here
        evaluator(choice)
        progress(done)


def sample(
    evaluator: Evaluator,
    evaluations: int,
    seed: int,
    start: Iterable[Numbers],
    progress: Callable[[int], None],
    allowed: Allowed | None = None,
) -> None:
    """Evaluate scenarios, ``start`` first, until the evaluator has ``evaluations`` in total.

    It stops early if hardly any are new or possible. Only ``allowed`` values are used, all if that
    is None. Raises FailedError without Optuna.
    """
    if allowed is None:
        allowed = evaluator.space.all
    neighbours = _Neighbours(evaluator, np.random.default_rng(seed), allowed)
    begun, stale, trials = evaluator.count, 0, 0
    with _study(seed) as study:
        for numbers in start:
            study.enqueue_trial(numbers)
        most = _MOST_TRIALS * evaluations
        while evaluator.count < evaluations and stale < _MOST_STALE and trials < most:
            if evaluator.count - begun >= _SAMPLING_SHARE * (evaluations - begun):
                nearby = neighbours.next()
                if nearby:
                    # Enqueue neighbours in the study, so that its sampler learns from them.
                    study.enqueue_trial(nearby)
            is_new = _trial(study, evaluator, neighbours, allowed)
            stale = 0 if is_new else stale + 1
            trials += 1
            progress(evaluator.count)


def _trial(study: Any, evaluator: Evaluator, neighbours: _Neighbours, allowed: Allowed) -> bool:
    """Evaluate the study's suggestion and report it; return whether it was new."""
    from optuna.trial import TrialState

    check()  # as in `evaluate_all`
    trial = study.ask()
    numbers = {
        each.path: trial.suggest_categorical(each.path, allowed[each.path])
        for each in evaluator.space.dimensions
    }
    choice = evaluator.space.choice(numbers)
    new = not evaluator.knows(choice)
    evaluation = evaluator(choice)
    if isinstance(evaluation, Evaluation):
        score = evaluator.objective.score(evaluation.figure)
        study.tell(trial, score)
        neighbours.saw(score, numbers)
    else:
        study.tell(trial, state=TrialState.PRUNED)
    return new


class _Neighbours:
    """The neighbours of the best choice so far, each once in random order.

    After them come the neighbours of the second best, and so on.
    """

    def __init__(
        self, evaluator: Evaluator, generator: np.random.Generator, allowed: Allowed
    ) -> None:
        self._evaluator = evaluator
        self._allowed = allowed
        self._generator = generator
        # Score, number, and the remaining neighbours. The number breaks ties, since iterators
        # cannot be compared.
        self._seen: list[tuple[float, int, Iterator[Numbers]]] = []

    def saw(self, score: float, numbers: Numbers) -> None:
        """Add a choice whose neighbours to try."""
        insort(self._seen, (score, len(self._seen), self._around(numbers)))

    def next(self) -> Numbers | None:
        """Return the next neighbour that was not evaluated; None if there is none."""
        space = self._evaluator.space
        for _, _, around in self._seen:
            for each in around:
                if not self._evaluator.knows(space.choice(each)):
                    return each
        return None

    def _around(self, numbers: Numbers) -> Iterator[Numbers]:
        """Yield choices that differ in one value, and in the fields that this switches on."""
        several: list[Numbers] = []
        for each in self._evaluator.space.dimensions:
            for number in self._allowed[each.path]:
                if number == numbers[each.path]:
                    continue
                for others in self._decided_values(each):
                    several.append({**numbers, each.path: number, **others})
        # Use a random order, because the budget may end before the last dimensions.
        for index in self._generator.permutation(len(several)):
            yield several[index]

    def _decided_values(self, each: Dimension) -> list[Numbers]:
        """Return the values of each field that applies only with some values of ``each``.

        If there is none, return one empty change.
        """
        changes: list[Numbers] = []
        for other in self._evaluator.space.dimensions:
            if each.decides(other):
                changes += [{other.path: number} for number in self._allowed[other.path]]
        return changes or [{}]


@contextmanager
def _study(seed: int) -> Iterator[Any]:
    """Yield a study that logs warnings only."""
    try:
        import optuna
    except ImportError:
        raise FailedError(_OPTUNA) from None
    loud = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield optuna.create_study(
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)
        )
    finally:
        optuna.logging.set_verbosity(loud)
