"""Whatever a scenario says, it ends in a result whose every number can be, or in a clear error, in
bounded time and memory.
"""

from __future__ import annotations

import os
import secrets

import pytest
from campaign import Campaign, run
from jail import Jail

CASES = 2_000 if os.environ.get("CI") else 150
LONG = 50_000
AT_A_TIME = 1_000


def test_scenarios_end_in_a_result_or_a_clear_error() -> None:
    with Jail() as jail:
        campaign = run(CASES, None, jail)
    _judge(campaign, CASES)


@pytest.mark.long
def test_many_scenarios_of_random_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(LONG // AT_A_TIME):
        start = secrets.randbits(64)
        with Jail() as jail:
            campaign = run(AT_A_TIME, start, jail)
        with capsys.disabled():
            print(f"seed {start}: {campaign.summary()}")
        _judge(campaign, AT_A_TIME)


def _judge(campaign: Campaign, number: int) -> None:
    assert not campaign.findings, campaign.report()
    assert sum(campaign.verdicts.values()) >= number
    assert campaign.verdicts["result"] >= number // 8, (
        "too few are simulated: what is drawn does not fit the schema any more"
    )
    assert campaign.verdicts["refused"] >= number // 8
