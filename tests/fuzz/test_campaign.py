"""The campaign itself: what it calls broken, and what a case can reach."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from campaign import tried
from jail import Jail
from judge import Case

WRONG = "name: [1\n"


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    # The first command imports the rest, which no limit of a simulation is to count.
    with Jail(limit=10.0) as started:
        yield started


def test_a_case_that_ends_its_process_is_found_with_its_seed() -> None:
    def draw(random: Random) -> Case:
        return Case(folder="/no/such/folder") if random.random() < 0.5 else Case()

    seed = next(seed for seed in range(9) if Random(seed).random() < 0.5)
    campaign = tried(draw, [seed], processes=2)
    assert campaign.verdicts == {"broken": 1}
    assert campaign.report().startswith("ended its process")
    assert f"seed {seed}: " in campaign.report()
    with pytest.raises(AssertionError, match="ended its process"):
        campaign.check(1)


def test_what_a_quiet_command_wrote_to_a_file_says_why_it_refused(jail: Jail) -> None:
    command = ("check", "f.yaml", "-q", "-o", "problems.json")
    verdict = jail.run(Case({"f.yaml": WRONG}, command))
    assert verdict.what == "refused"
    assert "f.yaml:2:1: " in verdict.why


def test_output_of_a_quiet_command_to_a_device_is_discarded(jail: Jail) -> None:
    command = ("check", "f.yaml", "-q", "-o", "/dev/null")
    assert jail.run(Case({"f.yaml": "nonsense: 1\n"}, command)).what == "refused"


def test_data_may_be_long_and_a_message_may_not(jail: Jail) -> None:
    name = "x" * 5_000
    assert jail.run(Case({}, ("check", name, "--csv"))).what == "refused"
    assert jail.run(Case({}, ("check", name))).what == "refused"


def test_nothing_but_the_cases_own_files_lies_around_it(jail: Jail) -> None:
    verdict = jail.run(Case({}, ("sweep", "../..", "-o", "out")))
    assert verdict.why == "dpsim: ../..: must hold scenario files (*.yaml), but holds none\n"
