"""The result of a search.

It has the best configuration and the file's own, the front of time against cost, and the impossible
configurations.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from dpsim.base.budget import TIME_LIMIT
from dpsim.base.errors import FailedError
from dpsim.base.lazy import Shown
from dpsim.base.provenance import provenance
from dpsim.engine import PartName
from dpsim.scenario import (
    Document,
    Override,
    Plain,
    Scenario,
    apply_overrides,
    as_yaml,
    from_text,
    validate,
)
from dpsim.studies.cautions import cautions
from dpsim.studies.sweep import scenario_key
from dpsim.studies.tune.evaluator import Evaluation, Refused
from dpsim.studies.tune.objective import Objective
from dpsim.studies.tune.space import Space


@dataclass(frozen=True, slots=True)
class Reason:
    """The effect of one ``value`` of a best configuration.

    ``loss`` is the relative change of the figure with the file's own value at ``path`` instead;
    ``part`` is the part of a step that then grows most.
    """

    path: str
    value: Plain
    loss: float
    part: PartName


@dataclass(frozen=True, slots=True, eq=False)
class Tuning(Shown):
    """The result of `tune`.

    ``baseline``: the unchanged file, or why it is impossible; ``breaks``: the limit that it breaks.
    ``best``, ``exact`` (the best with the updates of synchronous training; None if there is none)
    and ``front`` (fastest first) are simulated with all steps of the file; ``why`` and
    ``why_exact`` are the effects of their values. ``evaluations`` are all possible configurations,
    with few steps. ``exhaustive``: every choice of ``space`` was evaluated. ``partial``: the time
    limit ended the search, or the final simulations; all configurations may then have few steps.
    """

    document: Document
    objective: Objective
    space: Space
    seed: int
    exhaustive: bool
    partial: bool
    simulated: int
    baseline: Evaluation | Refused
    breaks: str | None
    best: Evaluation
    exact: Evaluation | None
    why: tuple[Reason, ...]
    why_exact: tuple[Reason, ...]
    front: tuple[Evaluation, ...]
    evaluations: tuple[Evaluation, ...]
    refused: tuple[Refused, ...]

    def __repr__(self) -> str:
        gain = "" if self.gain is None else f", {self.gain:+.1%}"
        return f"<Tuning for {self.objective.title}: {self.simulated:,} simulated{gain}>"

    @property
    def gain(self) -> float | None:
        """The relative change of the figure from baseline to best; None without a baseline."""
        return self.gain_of(self.best)

    def gain_of(self, evaluation: Evaluation) -> float | None:
        """Return the relative change of the figure from the baseline to ``evaluation``."""
        if isinstance(self.baseline, Refused):
            return None
        return self.objective.gain(self.baseline.figure, evaluation.figure)

    def is_best_too(self, evaluation: Evaluation) -> bool:
        """Return whether a configuration may be as good as the best within the models' errors."""
        best, own = (
            1 / each.figure if self.objective.higher else each.figure
            for each in (self.best, evaluation)
        )
        return self.best.result.indistinguishable_from(evaluation.result, best, own)

    @property
    def unit(self) -> str:
        """The unit of costs."""
        return self.objective.currency(self.best.result)

    @property
    def span(self) -> str:
        """The words for what time and cost refer to."""
        return self.objective.span(self.best.result)

    @property
    def reasons(self) -> list[tuple[str, int, Refused]]:
        """The reasons why configurations are impossible, with their number and the first of each.

        The most frequent reason comes first.
        """
        counts = Counter(each.why for each in self.refused)
        # Reverse the order, so that the dict keeps the first configuration of each reason.
        first = {each.why: each for each in reversed(self.refused)}
        return [(why, count, first[why]) for why, count in counts.most_common()]

    @property
    def notes(self) -> list[str]:
        """Remarks that the figures of the best do not show."""
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        if isinstance(self.baseline, Refused):
            yield f"the file's own configuration cannot be: {self.baseline.why}"
        elif self.breaks is not None:
            yield f"the file's own configuration breaks a limit: {self.breaks}"
        # The file may be better than the best if the space does not contain its own values.
        elif self.objective.score(self.baseline.figure) < self.objective.score(self.best.figure):
            yield (
                "the file's own configuration, which is none of those that were tried, "
                "is better than all of them"
            )
        elif self.baseline.scenario == self.best.scenario:
            yield "the best is the file as it is"
        yield from self._note_on_errors()
        differs = self.best.changes_updates
        if differs:
            yield (
                f"{' and '.join(differs)}: training may take more steps or end less accurate, "
                "which time per step does not show; "
                "no figure for that is known (dpsim converge trains a small model that way; "
                "--max-accuracy-penalty 0 leaves it out)"
            )
        yield from self._note_on_batch()
        shown = {"as the file is": self.baseline, "the same updates": self.exact, "best": self.best}
        yield from cautions(
            (label, each.result) for label, each in shown.items() if isinstance(each, Evaluation)
        )
        if self.partial:
            yield (
                f"the time limit ({TIME_LIMIT}) ended the search, or the simulation of its best "
                "with all steps of the file: these are the best of what was tried"
            )
        if not self.exhaustive:
            yield (
                f"{self.simulated:,} of {self.space.size:,} configurations were simulated: "
                "a better one may be among the others"
            )

    def _note_on_errors(self) -> Iterator[str]:
        """Name the shown configurations that are within the models' errors of the best."""
        shown = {"as the file is": self.baseline, "with the same updates": self.exact}
        alike = [
            label
            for label, each in shown.items()
            if isinstance(each, Evaluation)
            and each.scenario != self.best.scenario
            and self.is_best_too(each)
        ]
        if alike:
            yield (
                f"the best and the one {' and the one '.join(alike)} are within the models' errors "
                "of one another; errors that both share (the same GPU, the same network) cancel "
                "in differences"
            )

    def _note_on_batch(self) -> Iterator[str]:
        # The time to a target includes the steps that a batch needs.
        if isinstance(self.baseline, Refused) or self.objective.to_target:
            return
        before, after = self.baseline.scenario.global_batch, self.best.scenario.global_batch
        if before != after:
            yield (
                f"the global batch goes from {before:,} to {after:,}: "
                "the samples to the same accuracy then differ, which this ignores"
            )

    def best_text(self, target: Path) -> str:
        """Return the best configuration as a scenario file to be written to ``target``.

        A comment states its origin.
        """
        values = [
            *self.space.overrides(self.best.choice),
            # Names have at most 200 characters.
            Override.of("name", f"{self.best.scenario.name[:190]}-tuned", "name"),
        ]
        return _scenario_text(
            apply_overrides(self.document, values, Scenario), self._comments(), target
        )

    def _comments(self) -> Iterator[str]:
        made = provenance()
        source = Path(self.document.source).name
        versions = f"dpsim {made['dpsim']}, {made['date']}"
        yield f"Found by dpsim tune {source} ({versions}), seed {self.seed}:"
        how = "all" if self.exhaustive else f"{self.simulated:,} simulated"
        gain = self.gain
        against = "" if gain is None else f", {gain:+.1%} against that file"
        title = self.objective.title
        yield f"the best {title} of {how} of {self.space.size:,} configurations{against}."
        yield from (f"  {path}: {value}" for path, value in self.best.values.items())
        yield from (f"Note: {note}" for note in self.notes)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim tune``."""
        return {
            "schema_version": 1,
            "kind": "tune",
            "name": self.best.scenario.name,
            "objective": self.objective.name,
            "higher_is_better": self.objective.higher,
            "space": {each.path: list(each.plain) for each in self.space.dimensions},
            "configurations": self.space.size,
            "exhaustive": self.exhaustive,
            "partial": self.partial,
            "simulated": self.simulated,
            "baseline": None if isinstance(self.baseline, Refused) else self.baseline.to_json(),
            "best": self.best.to_json(),
            "gain": self.gain,
            "exact": None if self.exact is None else self.exact.to_json(),
            "why": [asdict(each) for each in self.why],
            "why_exact": [asdict(each) for each in self.why_exact],
            "front": [
                {**each.to_json(), "is_best_too": self.is_best_too(each)} for each in self.front
            ],
            "span": self.span,
            "cost_unit": self.unit,
            "rows": [each.to_json() for each in self.evaluations],
            "infeasible": [
                {"reason": why, "count": count, "example": each.values}
                for why, count, each in self.reasons
            ],
            "notes": self.notes,
            "seed": self.seed,
            "provenance": provenance(),
        }


def _scenario_text(document: Document, comments: Iterable[str], target: Path) -> str:
    """Return the YAML text of ``document``, below ``comments``, for a file at ``target``.

    Paths of files are made relative to ``target``. Comments of the original file are lost. Raises
    FailedError if the text would be another scenario.
    """
    content = _move_paths(document.plain(), Path(document.source).parent, target.parent)
    lines = (part for line in comments for part in wrap(line, 118, subsequent_indent="  ") or [""])
    text = "".join(f"# {line}\n" for line in lines) + as_yaml(content, 120)
    # Check by reading the text back, because a number or a path may have been written differently.
    read = validate(from_text(text, str(target)), Scenario)
    if scenario_key(read) != scenario_key(validate(document, Scenario)):
        raise FailedError(
            f"{target}: would not be the scenario that was found: write it into "
            f"{Path(document.source).parent}"
        )
    return text


def _move_paths(value: Plain, source: Path, target: Path) -> Plain:
    """Return the value with relative paths of files changed from one folder to the other."""
    if isinstance(value, dict):
        return {key: _move_paths(below, source, target) for key, below in value.items()}
    if isinstance(value, list):
        return [_move_paths(below, source, target) for below in value]
    return _move_path(value, source, target) if isinstance(value, str) else value


def _move_path(text: str, source: Path, target: Path) -> str:
    name, colon, function = text.rpartition(":") if ".py:" in text else (text, "", "")
    if source.resolve() == target.resolve():
        return text
    # Any text may be a file's name, so look up plausible names only.
    if not name or "\n" in name or len(name) > 4096:
        return text
    if Path(name).is_absolute() or not (source / name).is_file():
        return text
    return f"{os.path.relpath(source / name, target)}{colon}{function}"
