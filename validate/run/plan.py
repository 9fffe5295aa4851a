"""A plan of many cases: scenario files with variants, to be run, recorded, and compared later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pydantic import Field, PositiveInt

from dpsim.base.config import Config
from dpsim.scenario import load
from validate.emulate import Case
from validate.records import RunRecord
from validate.run.runs import PartialRunError, on_testbed
from validate.run.step_run import StepRun


class Variant(Config):
    """One case of a plan."""

    name: str = Field(min_length=1, description="Name in reports.")
    set: tuple[str, ...] = Field(default=(), description="Changes to the scenario, as for --set.")
    choice: bool = Field(
        default=True, description="Whether it is ranked against the other variants of its group."
    )


class Group(Config):
    """Variants of one scenario that differ in the choice to be made."""

    scenario: str = Field(
        description="Scenario file, relative to the plan or to the current directory."
    )
    setting: str = Field(
        min_length=1,
        description="Property shared by all variants, which are ranked against each other.",
    )
    set: tuple[str, ...] = Field(default=(), description="Changes for all variants, as for --set.")
    variants: tuple[Variant, ...] = Field(min_length=1)


class Plan(Config):
    """The cases to run, and how often."""

    repetitions: PositiveInt = Field(default=3, description="Runs of each case.")
    groups: tuple[Group, ...] = Field(min_length=1)

    def cases(self) -> Iterator[tuple[Group, Variant, Case]]:
        """Yield all cases."""
        for group in self.groups:
            for variant in group.variants:
                yield group, variant, Case(group.scenario, (*group.set, *variant.set))


def load_plan(path: Path) -> Plan:
    """Return the plan in a YAML file. Raises ScenarioError."""
    return load(path, Plan)


def run_plan(
    plan: Plan, chosen: Sequence[str], failed: Callable[[str], None]
) -> Iterator[RunRecord]:
    """Run the cases whose setting or name contains one of ``chosen``, all if none.

    Testbeds follow one after the other. If a run fails, ``failed`` is called with the reason, the
    measurements until then come with a note, and the next group follows.
    """
    for group in plan.groups:
        wanted = {}
        for variant in group.variants:
            name = f"{group.setting}: {variant.name}"
            if not chosen or any(text in name for text in chosen):
                wanted[Case(group.scenario, (*group.set, *variant.set))] = variant
        for run in _runs(list(wanted), plan.repetitions, failed):
            variant = wanted[run.case]
            # Without a setting a case is not ranked; its error still counts.
            yield run.record(
                f"{group.setting}: {variant.name}", group.setting if variant.choice else ""
            )


def _runs(
    cases: Sequence[Case], repetitions: int, failed: Callable[[str], None]
) -> Iterator[StepRun]:
    try:
        yield from on_testbed(cases, repetitions=repetitions)
    except PartialRunError as partial:
        failed(str(partial))
        yield from partial.runs
