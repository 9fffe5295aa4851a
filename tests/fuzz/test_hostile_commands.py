"""Whatever is typed, and whatever stands in the files that commands read: an answer or a clear line,
a code from 0 to 3, in bounded time and memory.

`hostile_cases.py` draws scenarios; here are arguments of all commands, spoiled files of all
formats, spoiled answers, and files that change from one command to the next. ``python tests/fuzz
commands`` tries as many as one likes.
"""

from __future__ import annotations

import secrets
from random import Random

import pytest
from campaign import tried
from command_cases import case
from command_line import commands

FEW, MANY = 30, 2_000
LONG = 20_000


@pytest.mark.parametrize(
    "seeds", [range(FEW), pytest.param(range(FEW, MANY), marks=pytest.mark.long)]
)
def test_commands_end_in_an_answer_or_a_clear_error(seeds: range) -> None:
    tried(case, seeds, processes=1 if len(seeds) == FEW else 2).check(len(seeds))


@pytest.mark.long
def test_many_commands_of_random_seeds() -> None:
    start = secrets.randbits(60)
    tried(case, range(start, start + LONG), processes=2).check(LONG)


def test_every_command_is_drawn() -> None:
    drawn = {each.command for each in map(case, map(Random, range(1_500)))}
    words = {command[:length] for command in drawn if command for length in (1, 2)}
    assert {command.words for command in commands()} <= words
