"""``dpsim validate backends``: try each operation of torch.distributed on each backend."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from dpsim.base.errors import UnknownNameError
from dpsim.base.terminal import show, show_json, table
from dpsim.commands.options import Json
from dpsim.commands.progress import progress
from dpsim.commands.validate.options import torch_first

if TYPE_CHECKING:
    from rich.table import Table

    from validate.backends.matrix import Cell, Edition


def backends(
    ranks: Annotated[int, typer.Option(min=2, max=64, help="Ranks to start on this machine.")] = 2,
    timeout: Annotated[
        float, typer.Option(min=1, max=600, help="Timeout of an operation in seconds.")
    ] = 20.0,
    edition: Annotated[
        str,
        typer.Option(
            metavar="classic|today",
            help=(
                "Table of torch's documentation shown first: classic (2.0, as in lectures) or "
                "today."
            ),
        ),
    ] = "today",
    as_json: Json = False,
) -> None:
    """Try every operation of gloo, nccl and mpi on CPU and CUDA tensors.

    Shows the entry in torch's documentation for each, and whether it works, fails, or cannot be
    tried here.

    Example: dpsim validate backends --edition classic
    Example: torchrun --nproc-per-node 2 -m validate backends --json
    """
    torch_first("backends")
    from validate.backends.matrix import Edition, here, matrix, pairs, to_json

    if edition not in get_args(Edition):
        raise UnknownNameError("edition", edition, get_args(Edition))
    wanted = cast("Edition", edition)
    # A launcher such as torchrun sets it in each of its ranks.
    if "RANK" in os.environ:
        cells = here(timeout)
        if os.environ["RANK"] != "0":
            return
    else:
        # Eleven operations of each pair (`OPERATIONS` of `validate.backends.matrix`).
        with progress("trying operations", sum(1 for _ in pairs()) * 11) as done:
            cells = matrix(ranks, timeout, done)
    if as_json:
        show_json(to_json(cells, wanted))
    else:
        show(_table(cells, wanted), "", *_notes(cells))


def _table(cells: Sequence[Cell], edition: Edition) -> Table:
    """Return operations by backend and device: the edition's entry, and differences from it."""
    columns = list(dict.fromkeys((cell.backend, cell.device) for cell in cells))
    whose = "the classic" if edition == "classic" else "today's"
    title = f"torch.distributed: {whose} documentation, and this machine"
    headings = ("operation", *(f"{backend} {device}" for backend, device in columns))
    rows = (
        (operation, *(_mark(cell, edition) for cell in cells if cell.operation == operation))
        for operation in dict.fromkeys(cell.operation for cell in cells)
    )
    return table(title, headings, rows, left=headings)


_BRIEF = {"works": "yes", "does not work": "no"}


def _mark(cell: Cell, edition: Edition) -> str:
    """Return the edition's entry, the other's if it differs, and the result on this machine."""
    other: Edition = "today" if edition == "classic" else "classic"
    entry, others = (_BRIEF.get(cell.verdict_of(each), "perhaps") for each in (edition, other))
    marks = [entry]
    if others != entry:
        marks.append(f"{other}: {others}")
    if cell.verdict != "not tried":
        marks.append(f"here: {_HERE[cell.verdict]}")
    return ", ".join(marks)


_HERE = {"works": "yes", "fails": "no"}


def _notes(cells: Sequence[Cell]) -> list[str]:
    from validate.backends.matrix import CLASSIC, DOCUMENTATION

    fails = [
        f"{cell.backend} {cell.device} {cell.operation} fails: {cell.detail}"
        for cell in cells
        if cell.verdict == "fails"
    ]
    reasons = dict.fromkeys(
        f"{cell.backend} {cell.device} not tried: {cell.detail}"
        for cell in cells
        if cell.verdict == "not tried"
    )
    return [
        *fails,
        *reasons,
        "perhaps: if MPI was built for CUDA",
        f"today: {DOCUMENTATION}",
        f"classic: {CLASSIC}, as in lectures",
    ]
