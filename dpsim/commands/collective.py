"""``dpsim collective``: time one collective over sizes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import show, show_json
from dpsim.commands.collective_files import (
    show_steps,
    write_nccl_tuner,
    write_steps,
)
from dpsim.commands.options import (
    Itemsize,
    Json,
    Operation,
    Plot,
    check_plot,
    draw,
    read_option,
)

if TYPE_CHECKING:
    from dpsim.network import MessageCosts, ModelKind
    from dpsim.studies.collective import CollectiveTimes
    from dpsim.topology import Network


Ranks = Annotated[
    int | None,
    typer.Option(
        min=1, max=2**20, help="Ranks on one uniform switch (with --bandwidth, --latency)."
    ),
]
Bandwidth = Annotated[
    str | None, typer.Option(help='Rate of each rank\'s link in each direction: "50 GB/s".')
]
Latency = Annotated[str, typer.Option(help='Latency of a message: "500 ns".')]
Overhead = Annotated[str, typer.Option(help="CPU time of the sender per message.")]
Cluster = Annotated[
    str | None,
    typer.Option(help="Cluster: a scenario file, or a node of the catalogue."),
]
Nodes = Annotated[
    int | None, typer.Option(min=1, max=2**20, help="Number of nodes, with --cluster.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="With --cluster: replace a value of its cluster or run. Repeatable.",
    ),
]
Algorithm = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help=(
            "Algorithms (dpsim catalogue algorithms), auto, or all; if left out, the library's "
            "choice, or a ring without a library."
        ),
    ),
]
Library = Annotated[
    str | None,
    typer.Option(
        help=(
            "Library that runs it: auto (nccl on NVIDIA or AMD GPUs if it has the algorithm, "
            "otherwise ideal), ideal (the schedule without overheads), nccl, gloo or mpi. If left "
            "out: ideal for algorithms given by name, which are compared as schedules, otherwise "
            "auto."
        )
    ),
]
Begin = Annotated[
    str, typer.Option("-b", "--begin", help="Smallest size: 8, 4K, 1M (binary), 1 MB.")
]
End = Annotated[
    str | None, typer.Option("-e", "--end", help="Largest size; the smallest if left out.")
]
Factor = Annotated[float, typer.Option("-f", "--factor", help="Factor from each size to the next.")]
NetworkModel = Annotated[str, typer.Option(help="auto, rounds, flows or closed-form.")]
Skew = Annotated[
    str | None,
    typer.Option(help="Mean of the ranks' random start times, exponentially distributed: 1 ms."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the start times.")]
Steps = Annotated[
    bool,
    typer.Option(
        "--steps", help="Print who sends which chunk to whom, round by round, instead of times."
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        help="With --steps: write a page that plays the rounds, up to four algorithms side by side."
    ),
]
NcclTuner = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=(
            "Instead of printing times, write the best choice for each size to "
            "this file, for NCCL's example tuner plugin."
        ),
    ),
]


def collective(
    ranks: Ranks = None,
    bandwidth: Bandwidth = None,
    latency: Latency = "0 s",
    overhead: Overhead = "0 s",
    cluster: Cluster = None,
    nodes: Nodes = None,
    set_: Set = None,
    algorithm: Algorithm = None,
    library: Library = None,
    operation: Operation = "all-reduce",
    begin: Begin = "1M",
    end: End = None,
    factor: Factor = 2.0,
    network_model: NetworkModel = "auto",
    skew: Skew = None,
    seed: Seed = 0,
    steps: Steps = False,
    html: Html = None,
    nccl_tuner: NcclTuner = None,
    itemsize: Itemsize = 4,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Time one collective over sizes, with the columns of nccl-tests.

    Example: dpsim collective --ranks 1024 --bandwidth "50 GB/s" --latency "500 ns"
        --algorithm ring -b 100MB -e 100MB
    Example: dpsim collective --cluster dgx-a100 --nodes 4 --algorithm all -b 1M -e 1G -f 4
    Example: dpsim collective --cluster dgx-h100 --library nccl -b 8 -e 8G -f 2
    Example: dpsim collective --cluster dgx-h100 --nodes 4 --set cluster.network.nic=100GbE -b 1G
    Example: dpsim collective --cluster dgx-h100 --nodes 4 -b 8 -e 8G --nccl-tuner tuner.csv
    Example: dpsim collective --steps --ranks 4 --algorithm ring
    Example: dpsim collective --steps --ranks 8 --algorithm ring,halving-doubling --html steps.html
    """
    check_plot(plot)
    if html is not None and not steps:
        raise DpsimError("--html: must be given with --steps, but got it alone")
    sets = set_ or []
    if sets and cluster is None:
        raise DpsimError("--set: must be given with --cluster, but got it without")
    # Rounds need a named algorithm; without a name, times are for the library's choice.
    named = algorithm or "ring"
    if steps and html is None:
        show_steps(ranks, named, operation, as_json)
        return
    sizes = _sizes(begin, end, factor)
    if nccl_tuner is not None:
        write_nccl_tuner(nccl_tuner, cluster, nodes, sets, operation, sizes, itemsize, as_json)
        return

    describe_network = partial(_network, ranks, bandwidth, latency, overhead, cluster, nodes, sets)
    if html is not None:
        # Without a network the page only plays the rounds, without times.
        on = None if cluster is None and bandwidth is None else describe_network()
        write_steps(html, ranks, named, operation, begin, on, itemsize)
        return
    if cluster is not None and sets:
        network_model, seed = _run_settings(cluster, nodes, sets, network_model, seed)
    from dpsim.studies.collective import algorithms_named, collective_times, exponential_starts

    kind = _model_kind(network_model)
    network, costs = describe_network()
    mean = None if skew is None else _time("--skew", skew)
    times = collective_times(
        network,
        sizes,
        None if algorithm is None else algorithms_named(algorithm, operation),
        library,
        operation=operation,
        kind=kind,
        costs=costs,
        starts=None if mean is None else exponential_starts(network.ranks, mean, seed),
        itemsize=itemsize,
    )
    _show(times, plot, as_json)


def _run_settings(
    cluster: str, nodes: int | None, sets: list[str], network_model: str, seed: int
) -> tuple[str, int]:
    """Return the network model and the seed; from the scenario's run if --set gives them."""
    from dpsim.studies.collective import chosen_path, named_scenario

    paths_set = set(map(chosen_path, sets))
    run = named_scenario(cluster, nodes, sets).run
    return (
        run.network_model if "run.network_model" in paths_set else network_model,
        run.seed if "run.seed" in paths_set else seed,
    )


def _network(
    ranks: int | None,
    bandwidth: str | None,
    latency: str,
    overhead: str,
    cluster: str | None,
    nodes: int | None,
    sets: list[str],
) -> tuple[Network, MessageCosts]:
    """Return the described network, and the costs of messages for a rank."""
    from dpsim.network import MessageCosts
    from dpsim.studies.collective import named_cluster

    network: Network
    if cluster is None:
        network, gamma = _switch(ranks, bandwidth, latency), 0.0
    elif ranks is not None or bandwidth is not None:
        raise DpsimError("--cluster must not be given with --ranks and --bandwidth, but got both")
    else:
        network, gamma = named_cluster(cluster, nodes, sets)
    return network, MessageCosts(_time("--overhead", overhead), gamma)


def _switch(ranks: int | None, bandwidth: str | None, latency: str) -> Network:
    """Return a uniform switch."""
    from dpsim.base.units import RATE, parse
    from dpsim.topology import UniformSwitch

    if ranks is None or bandwidth is None:
        raise DpsimError(
            "must have either --cluster, or --ranks with --bandwidth, but got neither in full"
        )
    rate = read_option("--bandwidth", lambda text: parse(text, RATE), bandwidth)
    if rate <= 0:
        raise DpsimError(f"--bandwidth: must be above 0, but got {bandwidth!r}")
    return UniformSwitch(ranks, rate, _time("--latency", latency))


def _sizes(begin: str, end: str | None, factor: float) -> list[int]:
    from dpsim.studies.collective import parse_size, size_range

    smallest = read_option("-b", parse_size, begin)
    largest = smallest if end is None else read_option("-e", parse_size, end)
    return size_range(smallest, largest, factor)


def _show(found: CollectiveTimes, plot: Path | None, as_json: bool) -> None:
    from dpsim.report.text.collective import collective_notes, collective_table

    draw(plot, found)
    if as_json:
        show_json(found.to_json())
        return
    show(collective_table(found.rows))
    for note in collective_notes(found.rows):
        show(note)


def _model_kind(name: str) -> ModelKind:
    from dpsim.base.errors import UnknownNameError
    from dpsim.network import MODEL_KINDS

    if name not in MODEL_KINDS:
        raise UnknownNameError("network model", name, MODEL_KINDS)
    return cast("ModelKind", name)


def _time(option: str, text: str) -> float:
    from dpsim.base.units import TIME, parse

    seconds = read_option(option, lambda value: parse(value, TIME), text)
    if seconds < 0:
        raise DpsimError(f"{option}: must be at least 0, but got {text!r}")
    return seconds
