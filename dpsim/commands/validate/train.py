"""``dpsim validate train``: ways of data-parallel training from first principles, with a proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.errors import FailedError
from dpsim.base.terminal import show, show_answer, table
from dpsim.commands.options import Json
from dpsim.commands.validate.options import Backend, Device, torch_first

if TYPE_CHECKING:
    from rich.table import Table

    from validate.training import Proof


def train(
    method: Annotated[
        str,
        typer.Argument(help="One or more methods, comma-separated, or all.", show_default=False),
    ],
    ranks: Annotated[int, typer.Option(min=1, max=64, help="Ranks to start.")] = 4,
    device: Device = "auto",
    backend: Backend = "auto",
    model: Annotated[str, typer.Option(help="A small cnn or transformer.")] = "cnn",
    steps: Annotated[int, typer.Option(min=1, max=10_000, help="Steps of each worker.")] = 8,
    batch: Annotated[int, typer.Option(min=1, help="Samples per worker and step.")] = 16,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the weights, samples and random choices.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Train a small network on digits by each method and by torch's own, and check the results.

    Losses and weights are compared with a replay of the run's log in one process. Methods: ddp,
    fsdp, zero-1, schedule, library, buckets, parameter-server, backup, local-sgd, gossip, ad-psgd,
    sma, compressed, through-host, data-parallel, whole-batch.

    Example: dpsim validate train gossip
    Example: dpsim validate train all --device cuda --backend nccl --json
    """
    torch_first("train")
    from pydantic import ValidationError

    from dpsim.base.config import first_problem
    from dpsim.base.errors import DpsimError
    from validate.training import Training, names_of, prove

    names = names_of(method)
    try:
        settings = Training.model_validate(
            {"model": model, "steps": steps, "batch": batch, "seed": seed}
        )
    except ValidationError as error:
        where, rule, given = first_problem(error)
        raise DpsimError(f"--{where}: {rule}, but got {given!r}") from None
    proofs = prove(names, settings, ranks=ranks, device=device, backend=backend)
    if as_json:
        rows = [proof.to_json() for proof in proofs]
        show_answer("validate-train", ranks=ranks, rows=rows)
    else:
        show(_table(proofs), "", *_not_run(proofs))
    # Raise the error after printing the table, which shows the differences.
    if wrong := [proof.method for proof in proofs if not (proof.equal or proof.not_run)]:
        raise FailedError(f"different from the replay: {', '.join(wrong)}")


def _table(proofs: list[Proof]) -> Table:
    from dpsim.base.units import TIME, human

    headings = ("method", "first loss", "last loss", "a step", "computing", "off by", "equal")
    rows = (
        (
            proof.method,
            f"{proof.losses[0]:.4f}",
            f"{proof.losses[-1]:.4f}",
            human(proof.step_s, TIME, 3),
            human(proof.parts_s["compute"], TIME, 3),
            f"{proof.off:.1e}",
            "yes" if proof.equal else "NO",
        )
        for proof in proofs
        if not proof.not_run
    )
    return table("each method and its replay", headings, rows, left=("method",))


def _not_run(proofs: list[Proof]) -> list[str]:
    return [f"{proof.method} not run: {proof.not_run}" for proof in proofs if proof.not_run]
