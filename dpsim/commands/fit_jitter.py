"""``dpsim fit-jitter``: fit a disturbance to measured step times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show, show_json, write_whole
from dpsim.commands.options import Json, Plot, check_plot, draw
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from dpsim.disturbance import TimedJob

_FEW = 5  # the most jobs that are reported one by one

File = Annotated[
    Path,
    typer.Argument(
        help=(
            "A CSV file with a column step_ms or step_s; also rank and node where "
            "each rank was timed, and job where there are several. Or a folder of "
            "PyTorch traces, one of each rank."
        ),
        show_default=False,
    ),
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write the block to this file.")
]
Job = Annotated[
    str | None,
    typer.Option("--job", help="Only this job of the file; all are pooled if left out."),
]
GpusPerNode = Annotated[
    int | None,
    typer.Option(min=1, help="For a folder: ranks per node, where its files do not name hosts."),
]


def fit_jitter(
    file: File,
    output: Output = None,
    job: Job = None,
    gpus_per_node: GpusPerNode = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Fit jitter, delays, stalls and slow workers to step times of your own cluster.

    Prints a disturbance block for a scenario, and quantiles of step times as measured and as drawn
    from it. The plot shows both, by quantile and step after step.

    Example: dpsim fit-jitter steps.csv -o disturbance.yaml
    Example: dpsim fit-jitter steps.csv --plot jitter.html
    Example: dpsim fit-jitter traces/ --gpus-per-node 8
    """
    from dpsim.disturbance import fit_jitter as fitted
    from dpsim.disturbance import pooled

    check_plot(plot)
    jobs = _jobs(file, job, gpus_per_node)
    first = next(iter(jobs.values()))
    times, nodes = pooled(file, list(jobs.values()))
    found = fitted(times, nodes)
    block, quantiles = found.block(first.ranks), found.quantiles(times, nodes)
    # Curves of all steps are expensive, and only made if they are shown.
    if as_json or plot is not None:
        rows = [{"job": name, **each.to_json()} for name, each in jobs.items()]
        median = rows[0]["median_s"] if len(rows) == 1 else None
        told = {"steps": len(times), "ranks": times.shape[1], "median_s": median}
        named = {"schema_version": 1, "kind": "fit-jitter", **told}
        fitted_on = {**named, "jobs": rows, "quantiles": quantiles, "disturbance": block}
        answer = {**fitted_on, **found.curves(times, nodes)}
        if plot is not None:
            draw(plot, answer)
        if as_json:
            show_json(answer)
            return
    text = block_text(block)
    if output is None:
        show(text)
    else:
        write_whole(output, text)
    _narrate(jobs, block, quantiles)


def _jobs(file: Path, job: str | None, gpus_per_node: int | None) -> dict[str, TimedJob]:
    """Return the jobs of a CSV file by name, or the job of a folder of traces."""
    from dpsim.disturbance import read_jobs

    if not file.is_dir():
        if gpus_per_node is not None:
            raise DpsimError(f"{file}: must be a folder of traces for --gpus-per-node")
        return read_jobs(file, job)
    if job is not None:
        raise DpsimError(f"{file}: must be a CSV file for --job, but is a folder")
    return {file.resolve().name: _traced(file, gpus_per_node)}


def _traced(folder: Path, gpus_per_node: int | None) -> TimedJob:
    """Return each rank's computing time in each step, from their traces."""
    from dpsim.disturbance import STEPS_TO_FIT, timed_apart
    from dpsim.imports import read_ranks, trace_files

    with progress("traces", len(trace_files(folder))) as done:
        traces = read_ranks(folder, gpus_per_node=gpus_per_node, progress=done)
    for note in traces.notes:
        narrate(note)
    if len(traces.steps) < STEPS_TO_FIT:
        raise DpsimError(
            f"{folder}: must have at least {STEPS_TO_FIT} steps in common, but has "
            f"{len(traces.steps)}; of fewer dpsim import kineto makes a histogram"
        )
    return timed_apart(traces.compute, [each.rank for each in traces.ranks], traces.nodes)


def _narrate(
    jobs: dict[str, TimedJob], block: dict[str, Any], quantiles: list[dict[str, float]]
) -> None:
    """Report slow ranks and slow-downs, and how well the fit reproduces the times."""
    for entry in block.get("slow", []):
        ranks = ", ".join(map(str, entry["workers"]))
        narrate(f"rank {ranks} takes {entry['factor']:.2f} times as long as the median rank")
    _narrate_slow_downs(jobs)
    for row in quantiles:
        narrate(
            f"{row['quantile']:.0%} of steps take at most {row['measured']:.3f} times the mean, "
            f"{row['drawn']:.3f} times as drawn from the fit"
        )


def _narrate_slow_downs(jobs: dict[str, TimedJob]) -> None:
    """Report the slow-down of each job by stragglers, or of many jobs the minimum and maximum."""
    known = {name: each.slow_down for name, each in jobs.items() if each.slow_down is not None}
    if len(known) > _FEW:
        least, most = (choose(known, key=known.__getitem__) for choose in (min, max))
        narrate(
            f"a step takes {known[least]:.2f} ({least}) to {known[most]:.2f} ({most}) times as "
            "long as without stragglers: --json has each job"
        )
        return
    for name, slow_down in known.items():
        of = f" of {name}" if name else ""
        narrate(f"a step{of} takes {slow_down:.2f} times as long as without stragglers")


def block_text(block: object) -> str:
    """Return a ``disturbance`` block as text of a scenario."""
    import io

    from ruamel.yaml import YAML

    yaml, stream = YAML(), io.StringIO()
    yaml.default_flow_style = None  # a mapping or list without nested ones is written on one line
    yaml.width = 79  # of a terminal
    yaml.dump({"disturbance": block}, stream)
    return stream.getvalue()
