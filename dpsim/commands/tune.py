"""``dpsim tune``: find the best configuration of a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.terminal import narrate, save, show, show_json
from dpsim.commands.options import (
    Epochs,
    File,
    Json,
    Samples,
    Sets,
    Tokens,
    end_if_partial,
    read_option,
    with_amount,
)
from dpsim.commands.progress import bars

if TYPE_CHECKING:
    from dpsim.studies.tune import Tuning


Objective = Annotated[
    str, typer.Option(help="step-time, throughput, time-to-target or cost-to-target.")
]
Over = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=A,B,...",
        help="A field to search and its values. Repeatable; the usual candidates if left out.",
    ),
]
Evaluations = Annotated[
    int,
    typer.Option(min=1, max=100_000, help="Maximum number of configurations to simulate."),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(help='Maximum memory per GPU: "24 GB". The GPU\'s own memory is always a limit.'),
]
MaxBatch = Annotated[
    int | None, typer.Option(help="Maximum global batch, in samples over all workers.")
]
MaxNodes = Annotated[
    int | None, typer.Option(help="Maximum number of nodes; the scenario's number if left out.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        help=(
            "Maximum cost in the scenario's currency or GPU hours: of training to the target; "
            "if the objective has none, of --tokens, --samples or --epochs (also by list "
            "prices), or of a million samples."
        )
    ),
]
Within = Annotated[
    float | None,
    typer.Option(metavar="DAYS", help="Maximum duration of the same amount of training, in days."),
]
MaxAccuracyPenalty = Annotated[
    float | None,
    typer.Option(
        help="Maximum loss of accuracy (0.01: one point); excludes strategies with unknown loss."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the search; the scenario's own seed is run.seed.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write the best configuration as a scenario file."),
]
Html = Annotated[
    Path | None, typer.Option(help="Write the Pareto front of time against cost to this file.")
]


def tune(
    file: File,
    objective: Objective = "step-time",
    over: Over = None,
    evaluations: Evaluations = 80,
    max_memory: MaxMemory = None,
    max_batch: MaxBatch = None,
    max_nodes: MaxNodes = None,
    budget: Budget = None,
    within: Within = None,
    max_accuracy_penalty: MaxAccuracyPenalty = None,
    seed: Seed = 0,
    output: Output = None,
    html: Html = None,
    tokens: Tokens = None,
    samples: Samples = None,
    epochs: Epochs = None,
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Search for the best configuration of a scenario within limits.

    Also prints the Pareto front of time against cost. The exit code is 3 if the time limit ended
    the search: the answer is then the best configuration tried.

    Example: dpsim tune scenarios/quickstart.yaml -o best.yaml
    Example: dpsim tune scenarios/quickstart.yaml --objective throughput
        --max-nodes 16 --max-batch 8192 --html front.html
    Example: dpsim tune scenarios/quickstart.yaml --over strategy.overlap.kind=buckets,priority
        --over cluster.nodes=2,4,8
    """
    from dpsim.studies.tune import Limits
    from dpsim.studies.tune import tune as search

    limits = Limits(_bytes(max_memory), max_batch, max_nodes, budget, max_accuracy_penalty, within)
    with bars() as progress:
        tuning = search(
            file,
            over=over or (),
            objective=objective,
            evaluations=evaluations,
            limits=limits,
            seed=seed,
            overrides=with_amount(set_, tokens, samples, epochs),
            progress=progress,
            say=narrate,
        )
    _write(tuning, output, html)
    if as_json:
        show_json(tuning.to_json())
    else:
        from dpsim.report.text.tuning import front_table, tuning_notes, tuning_table

        show(tuning_table(tuning), "", front_table(tuning), "", *tuning_notes(tuning))
    end_if_partial(tuning)


def _bytes(text: str | None) -> float | None:
    from dpsim.base.units import DATA, parse

    return None if text is None else read_option("--max-memory", lambda it: parse(it, DATA), text)


def _write(tuning: Tuning, output: Path | None, html: Path | None) -> None:
    """Write the requested files."""
    if output is not None:
        save(output, tuning.best_text(output), f": dpsim run {output}")
    if html is not None:
        from dpsim.report.figures.front_figure import front_figure
        from dpsim.report.pages.document import figures_page

        save(html, figures_page("results of the search", [front_figure(tuning)]))
