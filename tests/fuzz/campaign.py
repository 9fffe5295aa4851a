"""Many cases, judged: what broke, each kind once with its smallest case, and what the cases took."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from threading import Lock

from jail import Jail
from judge import Case, Verdict


@dataclass(frozen=True)
class Outcome:
    """A case, the seed that draws it, and what it came to."""

    verdict: Verdict
    case: Case
    seed: int

    def __str__(self) -> str:
        return (
            f"{self.verdict.why}\n  at {self.verdict.where}\n  seed {self.seed}: "
            f"{self.case.to_line()[:3000].rstrip()}"
        )


@dataclass
class Campaign:
    """The verdicts so far; cases and their CPU seconds by what was called."""

    verdicts: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    bytes: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count a case; of those that broke alike, the smallest is kept."""
        case, verdict = outcome.case, outcome.verdict
        self.verdicts[verdict.what] += 1
        self.seconds.setdefault(case.called, []).append(verdict.seconds)
        self.bytes = max(self.bytes, verdict.bytes)
        if verdict.what == "broken":
            kind = (
                re.sub(r"[0-9][0-9.,e+]*", "#", verdict.why)[:60],
                re.sub(r":\d+", "", verdict.where),
            )
            known = self.findings.get(kind)
            if known is None or len(case.to_line()) < len(known.case.to_line()):
                self.findings[kind] = outcome

    def report(self) -> str:
        """What broke, for people; empty where nothing did."""
        return "\n\n".join(map(str, self.findings.values()))

    def summary(self) -> str:
        """How many cases, and what they took."""
        took = sorted(second for each in self.seconds.values() for second in each)
        return (
            f"{len(took):,} cases: {dict(self.verdicts)}; processor s a case: median "
            f"{took[len(took) // 2]:.3f}, "
            f"99th percentile {took[len(took) * 99 // 100]:.2f}, most {took[-1]:.1f}; at most "
            f"{self.bytes / 1e6:.0f} MB"
        )

    def check(self, number: int) -> None:
        """Nothing broke in ``number`` cases, of which enough were answered and enough refused."""
        assert not self.findings, self.report()
        assert sum(self.verdicts.values()) == number
        # One in six, over many.
        assert self.verdicts["result"] >= number // 12, "what is drawn does not fit any more"
        assert self.verdicts["refused"] >= number // 8


def tried(
    draw: Callable[[Random], Case],
    seeds: Iterable[int],
    processes: int = 1,
    limit: float | None = None,
    seen: Callable[[Campaign], object] = lambda campaign: None,
) -> Campaign:
    """The verdicts on the case of each seed; ``seen`` is called after each.

    With a ``limit`` dpsim is held to so many s, and a case that takes twice as long is broken.
    """
    campaign, lock, left = Campaign(), Lock(), iter(seeds)

    def work() -> None:
        with Jail() if limit is None else Jail(2 * limit, limit=limit) as jail:
            # All threads take from one iterator, so that none is idle at the end.
            for seed in left:
                case = draw(Random(seed))
                outcome = Outcome(jail.run(case), case, seed)
                with lock:
                    campaign.add(outcome)
                    seen(campaign)

    draw(Random(0))  # what is read once is read before there are threads
    with ThreadPoolExecutor(processes) as pool:
        for done in [pool.submit(work) for _ in range(processes)]:
            done.result()
    return campaign
