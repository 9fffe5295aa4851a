"""``dpsim scale``: more nodes, more workers with the same global batch, larger batches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.base.terminal import narrate, show, show_json
from dpsim.commands.options import (
    Epochs,
    File,
    Json,
    Plot,
    Samples,
    Sets,
    Tokens,
    check_plot,
    draw,
    end_if_partial,
    whole_numbers,
    with_amount,
)
from dpsim.commands.progress import progress

_KINDS = ("nodes", "workers", "batch")
_NODES = "1,2,4,8,16,32"


By = Annotated[
    str,
    typer.Option(
        help=(
            "Quantity to scale. nodes: throughput; workers or batch: also time to accuracy, "
            "and the best batch."
        )
    ),
]
Nodes = Annotated[
    str | None,
    typer.Option(
        metavar="N,N,...",
        help=f"Numbers of nodes: {_NODES} if left out, by batch the scenario's own.",
    ),
]
Batches = Annotated[
    str | None,
    typer.Option(
        metavar="B,B,...",
        help="With --by batch: samples per GPU; 1/4 to 4 times the scenario's if left out.",
    ),
]
FixedGlobalBatch = Annotated[
    bool,
    typer.Option(
        "--fixed-global-batch",
        help="With --by workers: divide the scenario's global batch among them (strong scaling).",
    ),
]


def scale(
    file: File,
    by: By = "nodes",
    nodes: Nodes = None,
    batches: Batches = None,
    fixed_global_batch: FixedGlobalBatch = False,
    plot: Plot = None,
    tokens: Tokens = None,
    samples: Samples = None,
    epochs: Epochs = None,
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Predict a scenario on more and more nodes, or with larger and larger batches.

    Shows where it saturates, or which batch is best. The exit code is 3 if the time limit left some
    out.

    Example: dpsim scale scenarios/quickstart.yaml --nodes 1,2,4,8,16
    Example: dpsim scale scenarios/quickstart.yaml --by workers --fixed-global-batch
    Example: dpsim scale scenarios/quickstart.yaml --by batch --nodes 1,4,16
    """
    if by not in _KINDS:
        raise UnknownNameError("way to scale (--by)", by, _KINDS)
    if fixed_global_batch and by != "workers":
        raise DpsimError(f"--fixed-global-batch must be given with --by workers, but got --by {by}")
    if batches is not None and by != "batch":
        raise DpsimError(f"--batches must be given with --by batch, but got --by {by}")

    check_plot(plot)
    overrides = with_amount(set_, tokens, samples, epochs)
    if by == "nodes":
        _by_nodes(file, _NODES if nodes is None else nodes, overrides, plot, as_json)
    else:
        _study(file, by, nodes, batches, overrides, fixed_global_batch, plot, as_json)


def _by_nodes(
    file: Path, nodes: str, overrides: list[str], plot: Path | None, as_json: bool
) -> None:
    from dpsim.studies.compare import scale as predict_scaling

    counts = whole_numbers("--nodes", nodes)
    with progress("simulating", len(counts)) as done:
        scaling = predict_scaling(file, counts, overrides=overrides, progress=done, say=narrate)
    draw(plot, scaling)
    if as_json:
        show_json(scaling.to_json())
    else:
        from dpsim.report.text.comparison import scaling_table

        saturates = scaling.saturates_at_nodes
        end = (
            "throughput still grows at the last of these"
            if saturates is None
            else f"throughput peaks at {saturates} nodes"
        )
        show(scaling_table(scaling), "", end, *scaling.notes)
    end_if_partial(scaling)


def _study(
    file: Path,
    by: str,
    nodes: str | None,
    batches: str | None,
    overrides: list[str],
    fixed_global_batch: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    from dpsim.scenario import load_scenario
    from dpsim.studies.scale import batch_study

    base = load_scenario(file, overrides)
    # With --by batch, batches are varied, so one number of nodes is enough.
    numbers = (
        [base.cluster.nodes]
        if by == "batch" and nodes is None
        else whole_numbers("--nodes", _NODES if nodes is None else nodes)
    )
    sizes = _sizes(base.workload.batch_per_gpu, batches) if by == "batch" else []

    with progress("simulating", len(numbers) * max(1, len(sizes))) as done:
        study = batch_study(
            file,
            numbers,
            sizes,
            overrides,
            fixed_global_batch=fixed_global_batch,
            progress=done,
            say=narrate,
        )

    how = {"by": by, "fixed_global_batch": fixed_global_batch}
    answer = {"schema_version": 1, "kind": "scale", **how, **study.to_json()}
    draw(plot, answer)
    if as_json:
        show_json(answer)
    else:
        from dpsim.report.text.batch_study import batch_study_notes, batch_study_table

        show(batch_study_table(study), "", *batch_study_notes(study))
    end_if_partial(study)


def _sizes(batch: int, batches: str | None) -> list[int]:
    """Return the given batches per GPU, or a quarter to four times the scenario's own."""
    if batches is not None:
        return whole_numbers("--batches", batches)
    return sorted({max(1, batch // 4), max(1, batch // 2), batch, 2 * batch, 4 * batch})
