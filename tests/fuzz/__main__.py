"""Try many drawn cases, on as many processes as there are cores, and say what came of them.

``python tests/fuzz commands --cases 50000 > fuzz.log`` ends with a summary, and with code 1 where
something broke. ``python tests/fuzz commands --seed SEED --cases 1`` tries one again.
"""

from __future__ import annotations

import argparse
import os
import platform
import secrets
import subprocess
import sys
import time
from pathlib import Path

import command_cases
import hostile_cases
from campaign import Campaign, tried

import dpsim

DRAWN = {"commands": command_cases.case, "scenarios": hostile_cases.case}
EVERY = 500  # cases


def main() -> int:
    """Read the arguments, try the cases and print; answers the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=DRAWN, help="what is drawn")
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, help="of the first case; random if left out")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, help="s a case; twice as many break it")
    reported = parser.parse_args()
    first = secrets.randbits(60) if reported.seed is None else reported.seed
    versions = f"commit {commit()}, Python {platform.python_version()}"
    print(f"{reported.kind}, seeds from {first}, {versions}", flush=True)

    start = time.monotonic()
    known: set[tuple[str, str]] = set()

    def seen(campaign: Campaign) -> None:
        for kind in campaign.findings.keys() - known:
            known.add(kind)
            print(f"\nBROKEN: {campaign.findings[kind]}\n", flush=True)
        if sum(campaign.verdicts.values()) % EVERY == 0:
            print(f"{time.monotonic() - start:6.0f} s: {campaign.summary()}", flush=True)

    seeds = range(first, first + reported.cases)
    campaign = tried(DRAWN[reported.kind], seeds, reported.processes, reported.limit, seen)
    for line in by_command(campaign):
        print(line)
    print(f"{time.monotonic() - start:.0f} s by the clock: {campaign.summary()}")
    print(f"kinds of findings: {len(campaign.findings)}")
    print(campaign.report())
    return 1 if campaign.findings else 0


def commit() -> str:
    """Whose sources are tried; ``-dirty`` where they differ from it."""
    folder = Path(dpsim.__file__).parent
    requested = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(requested, capture_output=True, text=True, check=False).stdout.strip()


def by_command(campaign: Campaign) -> list[str]:
    """A line for each thing that was called: cases, and CPU seconds."""
    return [
        f"{called:28} {len(took):7,} cases {sum(took):9.1f} s, most {max(took):5.2f}"
        for called, took in sorted(campaign.seconds.items())
    ]


if __name__ == "__main__":
    sys.exit(main())
