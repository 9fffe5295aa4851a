"""Compare one ring all-reduce by dpsim, SimGrid and SimPy: ``python -m tools.peers --ranks 256``.

Each runs in a new process; the comparison shows the processor time, and the simulated time of the
ring. SimGrid needs Debian's python3-simgrid and is left out where that is missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_SYSTEM_PYTHON = "/usr/bin/python3"
_PEERS = {
    "dpsim": [sys.executable, "-m", "tools.peers.by_dpsim"],
    "SimGrid": [_SYSTEM_PYTHON, str(_HERE / "by_simgrid.py")],
    "SimPy, naive": [sys.executable, "-m", "tools.peers.by_simpy"],
}


def main() -> None:
    """Print a line for each: processor seconds, their ratio to dpsim's, and the simulated time."""
    parser = argparse.ArgumentParser(description="Compare one ring all-reduce with other tools.")
    parser.add_argument("--ranks", type=int, default=256, help="ranks of the ring")
    parser.add_argument("--megabytes", type=float, default=100.0, help="a rank's vector")
    asked = parser.parse_args()
    ring = [str(asked.ranks), str(int(asked.megabytes * 1e6)), "50e9", "500e-9"]
    print(f"ring of {asked.ranks:,} ranks, {asked.megabytes:g} MB, 50 GB/s and 0.5 us a link")
    own = 0.0
    for name, command in _PEERS.items():
        taken = _seconds([*command, *ring])
        if taken is None:
            print(f"{name:13} is not there")
            continue
        seconds, answer = taken
        # dpsim comes first: the others are relative to it.
        own = own or seconds
        print(
            f"{name:13} {seconds:8.2f} s  {seconds / own:6.1f} x  finishes at {answer * 1e3:.6f} ms"
        )


def _seconds(command: list[str]) -> tuple[float, float] | None:
    """Return a command's processor time (s) and its answer; None where it fails."""
    before = os.times()
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    after = os.times()
    if ran.returncode:
        return None
    # Processor time, not wall-clock time, which includes other work of the machine.
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    return spent, float(ran.stdout.split()[-1])


if __name__ == "__main__":
    main()
