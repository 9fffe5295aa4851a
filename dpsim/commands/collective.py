"""``dpsim collective``: time one collective over sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import show, show_json
from dpsim.commands.collective_files import (
    algorithms_named,
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
    from dpsim.scenario import RunConfig
    from dpsim.studies.collective import CollectiveTimes
    from dpsim.topology import Network


Ranks = Annotated[
    int | None,
    typer.Option(
        min=1, max=2**20, help="Ranks on one uniform switch (with --bandwidth, --latency)."
    ),
]
Bandwidth = Annotated[
    str | None, typer.Option(help='Rate of each rank\'s link, each way: "50 GB/s".')
]
Latency = Annotated[str, typer.Option(help='Time a message spends on its way: "500 ns".')]
Overhead = Annotated[str, typer.Option(help="Time that a message costs its sender.")]
Cluster = Annotated[
    str | None,
    typer.Option(help="A scenario file whose cluster to use, or a node of the catalogue."),
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
            "choice, and a ring where there is none."
        ),
    ),
]
Library = Annotated[
    str | None,
    typer.Option(
        help=(
            "The library that runs it: auto (nccl on GPUs of NVIDIA or AMD where it has the "
            "algorithm, else ideal), ideal (the schedule alone), nccl, gloo or "
            "mpi. If left out: ideal for algorithms given by name, which are "
            "compared as schedules, otherwise auto."
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
    typer.Option(
        help="Ranks start at random, exponentially distributed times with this mean: 1 ms."
    ),
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
    # Rounds belong to a schedule, which needs a name; times may be of a library's choice.
    named = algorithm or "ring"
    if steps and html is None:
        show_steps(ranks, named, operation, as_json)
        return
    sizes = _sizes(begin, end, factor)
    if nccl_tuner is not None:
        write_nccl_tuner(nccl_tuner, cluster, nodes, sets, operation, sizes, itemsize, as_json)
        return

    described = _Described(ranks, bandwidth, latency, overhead, cluster, nodes, sets)
    if html is not None:
        # Without a network the page only plays the rounds, without times.
        on = None if described.nowhere else described.network()
        write_steps(html, ranks, named, operation, begin, on, itemsize)
        return
    if described.chooses("run.network_model"):
        network_model = described.run().network_model
    if described.chooses("run.seed"):
        seed = described.run().seed
    asked = _Asked(algorithm, library, operation, _model_kind(network_model), itemsize)
    _show(_times(described, asked, sizes, skew, seed), plot, as_json)


class _Described(NamedTuple):
    """The options that describe a network, as given."""

    ranks: int | None
    bandwidth: str | None
    latency: str
    overhead: str
    cluster: str | None
    nodes: int | None
    sets: list[str]

    @property
    def nowhere(self) -> bool:
        """Whether there is no network, but at most a number of ranks."""
        return self.cluster is None and self.bandwidth is None

    def chooses(self, path: str) -> bool:
        """Return whether --set replaces the field at ``path``."""
        from dpsim.studies.collective import chosen_path

        return path in map(chosen_path, self.sets)

    def run(self) -> RunConfig:
        """Return the run section of the cluster's scenario, with the changes by --set."""
        from dpsim.studies.collective import named_scenario

        assert self.cluster is not None
        return named_scenario(self.cluster, self.nodes, self.sets).run

    def network(self) -> tuple[Network, MessageCosts]:
        """Return the network, and the costs of messages for a rank."""
        from dpsim.network import MessageCosts
        from dpsim.studies.collective import named_cluster

        if self.cluster is None:
            network, gamma = self._switch(), 0.0
        elif self.ranks is not None or self.bandwidth is not None:
            raise DpsimError(
                "--cluster must not be given with --ranks and --bandwidth, but got both"
            )
        else:
            network, gamma = named_cluster(self.cluster, self.nodes, self.sets)
        return network, MessageCosts(_time("--overhead", self.overhead), gamma)

    def _switch(self) -> Network:
        """Return a uniform switch."""
        from dpsim.base.units import RATE, parse
        from dpsim.topology import UniformSwitch

        if self.ranks is None or self.bandwidth is None:
            raise DpsimError(
                "must have either --cluster, or --ranks with --bandwidth, but got neither in full"
            )
        rate = read_option("--bandwidth", lambda text: parse(text, RATE), self.bandwidth)
        if rate <= 0:
            raise DpsimError(f"--bandwidth: must be above 0, but got {self.bandwidth!r}")
        return UniformSwitch(self.ranks, rate, _time("--latency", self.latency))


def _sizes(begin: str, end: str | None, factor: float) -> list[int]:
    from dpsim.studies.collective import parse_size, size_range

    smallest = read_option("-b", parse_size, begin)
    largest = smallest if end is None else read_option("-e", parse_size, end)
    return size_range(smallest, largest, factor)


class _Asked(NamedTuple):
    """The options that select the timed collective and its models."""

    algorithm: str | None
    library: str | None
    operation: str
    kind: ModelKind
    itemsize: int

    def runs(self, network: Network) -> list[tuple[str, str]]:
        """Return the timed algorithms, each with its library.

        Named algorithms are compared as schedules unless a library is given.
        """
        names = self.algorithm
        # The library's own choice; without a library, a schedule must be named.
        if names is None:
            from dpsim.network.libraries import default_algorithm

            found = self._library("auto", network)
            return [(algorithms_named(default_algorithm(found), self.operation)[0], found)]
        named = algorithms_named(names, self.operation)
        return [(name, self._library(name, network)) for name in named]

    def _library(self, algorithm: str, network: Network) -> str:
        """Return the library, resolving "auto" for the algorithm."""
        from dpsim.network import automatic_library

        library = self.library or ("ideal" if self.algorithm else "auto")
        if library != "auto":
            return library
        # A network model requested by name belongs to no library.
        if self.kind != "auto":
            return "ideal"
        return automatic_library(algorithm, network, operation=self.operation).library


def _times(
    described: _Described, asked: _Asked, sizes: list[int], skew: str | None, seed: int
) -> CollectiveTimes:
    from dpsim.base.budget import limited
    from dpsim.studies.collective import (
        CollectiveRow,
        CollectiveTimes,
        collective_rows,
        exponential_starts,
    )

    network, costs = described.network()
    runs = asked.runs(network)
    starts = (
        None if skew is None else exponential_starts(network.ranks, _time("--skew", skew), seed)
    )
    rows: list[CollectiveRow] = []
    with limited():
        for name, library in runs:
            rows += collective_rows(
                network,
                [name],
                sizes,
                operation=asked.operation,
                kind=asked.kind,
                costs=costs,
                starts=starts,
                itemsize=asked.itemsize,
                library=library,
            )
        return CollectiveTimes(tuple(rows))


def _show(found: CollectiveTimes, plot: Path | None, as_json: bool) -> None:
    from dpsim.report.text.collective import collective_notes, collective_table

    if plot is not None:
        draw(plot, found.to_json())
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
