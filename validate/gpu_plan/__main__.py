"""What one borrowed GPU can show, in pieces: ``python -m validate.gpu_plan -o DIR``.

Each piece is a process of under ten minutes that writes what it measured as it goes, and is not
taken again where its file is there: an interrupted plan resumes. It needs no network. At the end
one table stands on stdout: measured steps and peak memory beside predictions by specification and
by this node's own profile.

    python -m validate.gpu_plan -o DIR --device cpu --small      # the same on a processor
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show
from validate.gpu_plan.pieces import Plan
from validate.gpu_plan.sizes import GPU, SMALL
from validate.gpu_plan.table import table_of

_PIECE_S = 590.0
_MINUTES = 20.0


def carry_piece(plan: Plan, name: str) -> None:
    """One piece: every row to its file as it is made; the file gets its name when it is whole."""
    # A piece that is cut off leaves this file: the table reads it, and the next run starts it anew.
    unfinished = plan.folder / f"{name}.part"
    with unfinished.open("w") as file:
        for row in plan.pieces()[name]():
            file.write(json.dumps(row) + "\n")
            file.flush()
    unfinished.rename(plan.folder / f"{name}.jsonl")


def carry_all(plan: Plan, minutes: float, command: Sequence[str]) -> None:
    """Every piece that is not there yet, in a process of its own, while there is time."""
    end = time.monotonic() + 60 * minutes
    for name in plan.pieces():
        if (plan.folder / f"{name}.jsonl").exists():
            narrate(f"{name}: is there")
            continue
        left = end - time.monotonic()
        if left <= 0:
            narrate(f"{name}: no time is left; the next run takes it up")
            continue
        begin = time.monotonic()
        own = [sys.executable, "-m", "validate.gpu_plan", *command, "--piece", name]
        try:
            # A process of its own gives the device's memory back, however it ends.
            ran = subprocess.run(own, check=False, timeout=min(_PIECE_S, left))
            how = "done" if ran.returncode == 0 else f"ended with {ran.returncode}"
        except subprocess.TimeoutExpired:
            how = "was cut off; what it measured is kept"
        narrate(f"{name}: {how} after {time.monotonic() - begin:.0f} s")


def main(arguments: Sequence[str]) -> None:
    """Parse, carry out, print."""
    parser = argparse.ArgumentParser("validate.gpu_plan", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the records")
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--small", action="store_true", help="sizes for a processor")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="for all pieces")
    parser.add_argument("--piece", default="", help="this one alone")
    told = parser.parse_args(arguments)
    told.output.mkdir(parents=True, exist_ok=True)
    backend = "nccl" if told.device == "cuda" else "gloo"
    plan = Plan(told.output, told.device, backend, SMALL if told.small else GPU)
    if told.piece:
        carry_piece(plan, told.piece)
        return
    command = ["-o", str(told.output), "--device", told.device]
    carry_all(plan, told.minutes, [*command, "--small"] if told.small else command)
    show(table_of(plan))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except DpsimError as problem:
        sys.exit(f"gpu_plan: {problem}")
