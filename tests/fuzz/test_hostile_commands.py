"""Whatever is typed, and whatever stands in the files that commands read: an answer or a clear line,
a code from 0 to 3, in bounded time and memory.

`hostile_cases.py` draws scenarios; here are arguments of all commands, spoiled files of all
formats, spoiled answers, and files that change from one command to the next.
"""

from __future__ import annotations

import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from campaign import Campaign
from command_cases import case
from command_line import commands
from jail import Jail
from judge import Case, Verdict

CASES = 2_000 if os.environ.get("CI") else 60
LONG = 20_000
AT_A_TIME = 1_000


def test_commands_end_in_an_answer_or_a_clear_error() -> None:
    _judge(_tried(CASES, 0), CASES)


@pytest.mark.long
def test_many_commands_of_random_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(LONG // AT_A_TIME):
        start = secrets.randbits(60)
        campaign = _tried(AT_A_TIME, start)
        with capsys.disabled():
            print(f"seed {start}: {campaign.summary()}")
        _judge(campaign, AT_A_TIME)


def test_every_command_is_drawn() -> None:
    drawn = {each.command for each in map(case, map(Random, range(3_000)))}
    words = {command[:length] for command in drawn if command for length in (1, 2)}
    assert {command.words for command in commands()} <= words


def _tried(number: int, start: int) -> Campaign:
    """The cases of ``number`` seeds from ``start`` on, half of them in another process."""
    campaign = Campaign()
    cases = [case(Random(seed)) for seed in range(start, start + number)]
    with Jail() as one, Jail() as other, ThreadPoolExecutor(2) as pool:
        halves = pool.map(_run, (one, other), (cases[::2], cases[1::2]))
        for half in halves:
            for tried, verdict in half:
                campaign.add(tried, verdict)
    return campaign


def _run(jail: Jail, cases: list[Case]) -> list[tuple[Case, Verdict]]:
    return [(each, jail.run(each)) for each in cases]


def _judge(campaign: Campaign, number: int) -> None:
    assert not campaign.findings, campaign.report()
    assert sum(campaign.verdicts.values()) == number
    assert campaign.verdicts["result"] >= number // 8
    assert campaign.verdicts["refused"] >= number // 8
