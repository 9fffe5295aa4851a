"""``dpsim validate backends``.

Which backend of torch.distributed works here, by trying each operation.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.terminal import show, show_json
from dpsim.commands.options import Json
from dpsim.commands.progress import progress
from dpsim.commands.validate.torch_first import torch_first

if TYPE_CHECKING:
    from rich.table import Table

    from validate.backends import Cell


def backends(
    ranks: Annotated[int, typer.Option(min=2, max=64, help="Ranks to start on this machine.")] = 2,
    timeout: Annotated[
        float, typer.Option(min=1, max=600, help="Seconds that an operation may take.")
    ] = 20.0,
    as_json: Json = False,
) -> None:
    """Try every operation of gloo, nccl and mpi on CPU and CUDA tensors.

    Says of each whether it works, fails, or cannot be tried here.

    Example: dpsim validate backends
    Example: torchrun --nproc-per-node 2 -m validate backends --json
    """
    torch_first("backends")
    from validate.backends import here, matrix, pairs, to_json

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
        show_json(to_json(cells))
    else:
        show(_table(cells), "", *_notes(cells))


def _table(cells: Sequence[Cell]) -> Table:
    """Operations by backend and device; what was not tried is in brackets, as documented."""
    from rich.table import Table

    columns = list(dict.fromkeys((cell.backend, cell.device) for cell in cells))
    table = Table(title="torch.distributed on this machine", title_justify="left", show_edge=False)
    table.add_column("operation")
    for backend, device in columns:
        table.add_column(f"{backend} {device}")
    for operation in dict.fromkeys(cell.operation for cell in cells):
        table.add_row(operation, *(_mark(cell) for cell in cells if cell.operation == operation))
    return table


def _mark(cell: Cell) -> str:
    brief = {"works": "works", "does not work": "no"}.get(cell.documented, "perhaps")
    mark = f"({brief})" if cell.verdict == "not tried" else cell.verdict
    return f"{mark} *" if cell.classic != cell.documented else mark


def _notes(cells: Sequence[Cell]) -> list[str]:
    from validate.backends import CLASSIC, DOCUMENTATION

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
        f"(in brackets): as torch's documentation says, {DOCUMENTATION}",
        "*: otherwise in the classic edition, where gloo has only broadcast and all_reduce on GPUs "
        f"({CLASSIC})",
    ]
