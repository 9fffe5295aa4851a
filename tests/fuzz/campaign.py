"""Many cases, judged: what broke, each kind once with its smallest case, and what the cases took."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hostile_cases import cases
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from jail import Jail
from judge import Case, Verdict


@dataclass
class Campaign:
    """The verdicts so far."""

    verdicts: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str], tuple[Verdict, Case]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    bytes: int = 0

    def add(self, case: Case, verdict: Verdict) -> None:
        """Count a case; of those that broke alike, the smallest is kept."""
        self.verdicts[verdict.what] += 1
        self.seconds.append(verdict.seconds)
        self.bytes = max(self.bytes, verdict.bytes)
        if verdict.what == "broken":
            kind = (
                re.sub(r"[0-9][0-9.,e+]*", "#", verdict.why)[:60],
                re.sub(r":\d+", "", verdict.where),
            )
            known = self.findings.get(kind)
            if known is None or len(case.to_line()) < len(known[1].to_line()):
                self.findings[kind] = verdict, case

    def report(self) -> str:
        """What broke, for people; empty where nothing did."""
        return "\n\n".join(
            f"{verdict.why}\n  at {verdict.where}\n  {case.to_line()[:3000].rstrip()}"
            for verdict, case in self.findings.values()
        )

    def summary(self) -> str:
        """How many cases, and what they took."""
        took = sorted(self.seconds)
        return (
            f"{len(took):,} cases: {dict(self.verdicts)}; processor s a case: median "
            f"{took[len(took) // 2]:.3f}, "
            f"99th percentile {took[len(took) * 99 // 100]:.2f}, most {took[-1]:.1f}; at most "
            f"{self.bytes / 1e6:.0f} MB"
        )


def run(
    number: int,
    start: int | None,
    jail: Jail,
    seen: Callable[[Campaign], object] = lambda campaign: None,
    drawn: SearchStrategy[Case] | None = None,
) -> Campaign:
    """Judge ``number`` cases: those of the seed ``start``, or the same ones always if that is
    None. They are scenarios, if ``drawn`` says nothing else.
    """
    campaign = Campaign()

    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        derandomize=start is None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases() if drawn is None else drawn)
    def one(case: Case) -> None:
        campaign.add(case, jail.run(case))
        seen(campaign)

    (one if start is None else seed(start)(one))()
    return campaign
