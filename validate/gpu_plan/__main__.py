"""What one borrowed GPU can show, in pieces: ``python -m validate.gpu_plan -o DIR``.

Each piece is a process of under ten minutes that writes what it measured as it goes. A plan that
was interrupted, or whose time was used up, goes on where it was. It needs no network. At the end
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
from validate.gpu_plan.pieces import Clock, Plan
from validate.gpu_plan.sizes import GPU, SMALL
from validate.gpu_plan.table import rows_in, table_of

_PIECE_S = 590.0  # of any piece at most
_GRACE_S = 60.0  # of it for what had begun when its time was used up
_MINUTES = 19.0  # and the table


def carry_piece(plan: Plan, name: str, seconds: float) -> None:
    """One piece: every row to its file as it is made; the file gets its name when it is whole.

    Raises OutOfTime after ``seconds``, with what was measured until then in the file.
    """
    # A piece that is cut off leaves this file: the table reads it, and the next run goes on.
    unfinished = plan.folder / f"{name}.part"
    clock = Clock(seconds, list(rows_in(unfinished)))
    with unfinished.open("w") as file:
        for row in plan.pieces()[name](clock):
            file.write(json.dumps(row) + "\n")
            file.flush()
    unfinished.rename(plan.folder / f"{name}.jsonl")


def carry_all(plan: Plan, minutes: float, command: Sequence[str]) -> None:
    """Every piece that is not there yet, in a process of its own, while there is time.

    Each has its share of the time that is left, and what one does not use the others have.
    """
    end = time.monotonic() + 60 * minutes
    waiting = [name for name in plan.pieces() if not (plan.folder / f"{name}.jsonl").exists()]
    for name in plan.pieces():
        if name not in waiting:
            narrate(f"{name}: is there")
            continue
        left = end - time.monotonic()
        share = left * plan.share(name) / sum(map(plan.share, waiting))
        waiting.remove(name)
        if left <= 0:
            narrate(f"{name}: no time is left; the next run takes it up")
            continue
        narrate(f"{name}: {how_it_went(name, command, min(share, _PIECE_S - _GRACE_S))}")


def how_it_went(name: str, command: Sequence[str], seconds: float) -> str:
    """Carry out a piece that is to take ``seconds``, and say how that ended."""
    begin = time.monotonic()
    own = [sys.executable, "-m", "validate.gpu_plan", *command, "--piece", name]
    try:
        # A process of its own gives the device's memory back, however it ends.
        ran = subprocess.run(
            [*own, "--seconds", f"{seconds:.1f}"], check=False, timeout=seconds + _GRACE_S
        )
        how = "done" if ran.returncode == 0 else f"ended with {ran.returncode}"
    except subprocess.TimeoutExpired:
        how = "was cut off; what it measured is kept"
    return f"{how} after {time.monotonic() - begin:.0f} s"


def main(arguments: Sequence[str]) -> None:
    """Parse, carry out, print."""
    parser = argparse.ArgumentParser("validate.gpu_plan", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the records")
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--small", action="store_true", help="sizes for a processor")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="for all pieces")
    parser.add_argument("--piece", default="", help="this one alone")
    parser.add_argument("--seconds", type=float, default=_PIECE_S, help="for that piece")
    told = parser.parse_args(arguments)
    told.output.mkdir(parents=True, exist_ok=True)
    backend = "nccl" if told.device == "cuda" else "gloo"
    plan = Plan(told.output, told.device, backend, SMALL if told.small else GPU)
    if told.piece:
        carry_piece(plan, told.piece, told.seconds)
        return
    command = ["-o", str(told.output), "--device", told.device]
    carry_all(plan, told.minutes, [*command, "--small"] if told.small else command)
    show(table_of(plan))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except DpsimError as problem:
        sys.exit(f"gpu_plan: {problem}")
