"""One ring all-reduce by dpsim, SimGrid and naive SimPy: ``python -m tools.peers --ranks 256``.

Each is a process of its own, from cold; what it takes of the processor is compared, and what it
says the ring takes. SimGrid needs Debian's python3-simgrid and is left out where it is not there.
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
    """Print a line for each: seconds of the processor, how many times dpsim's, and the answer."""
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
        # dpsim comes first: the others are told as so many times its own.
        own = own or seconds
        print(
            f"{name:13} {seconds:8.2f} s  {seconds / own:6.1f} x  finishes at {answer * 1e3:.6f} ms"
        )


def _seconds(command: list[str]) -> tuple[float, float] | None:
    """What a command takes of the processor (s), and what it answers; None where it fails."""
    before = os.times()
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    after = os.times()
    if ran.returncode:
        return None
    # The processor's time, not the clock's: what else the machine does is not in it.
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    return spent, float(ran.stdout.split()[-1])


if __name__ == "__main__":
    main()
