"""``dpsim collective``: how long one collective takes, over sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import show, show_json
from dpsim.commands.options import Json, Plot, check_plot, draw

if TYPE_CHECKING:
    from dpsim.base.arrays import FloatArray
    from dpsim.network import ModelKind
    from dpsim.studies.collective import CollectiveTimes
    from dpsim.topology import Network

T = TypeVar("T")

_MOST_SHOWN = 64  # ranks whose every transfer somebody may want to read
_MOST_BESIDE = 2  # algorithms that a page plays side by side


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
            "Whose collective: auto (nccl on NVIDIA GPUs where it has the algorithm, else ideal), "
            "ideal, nccl, gloo or mpi. If left out, ideal of algorithms that are named, which are "
            "compared as schedules; otherwise auto."
        )
    ),
]
Operation = Annotated[str, typer.Option(help="The collective operation.")]
Begin = Annotated[
    str, typer.Option("-b", "--begin", help="Smallest size: 8, 4K, 1M (binary), 1 MB.")
]
End = Annotated[
    str | None, typer.Option("-e", "--end", help="Largest size; the smallest if left out.")
]
Factor = Annotated[
    float, typer.Option("-f", "--factor", help="Each size is so many times the one before.")
]
NetworkModel = Annotated[str, typer.Option(help="auto, rounds, flows or closed-form.")]
Skew = Annotated[
    str | None, typer.Option(help="Mean of each rank's own exponential start time: 1 ms.")
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
        help=("With --steps: write a page that plays the rounds, of two algorithms side by side.")
    ),
]
Msccl = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the rounds for MSCCL's interpreter to this file, .xml or .json.",
    ),
]
NcclTuner = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help=(
            "Write what NCCL had best choose at each size as the file of NCCL's example tuner "
            "plugin, instead of times."
        ),
    ),
]
Itemsize = Annotated[int, typer.Option(min=1, max=16, help="Bytes of an element.")]


def collective(
    ranks: Ranks = None,
    bandwidth: Bandwidth = None,
    latency: Latency = "0 s",
    overhead: Overhead = "0 s",
    cluster: Cluster = None,
    nodes: Nodes = None,
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
    msccl: Msccl = None,
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
    Example: dpsim collective --cluster dgx-h100 --nodes 4 -b 8 -e 8G --nccl-tuner tuner.csv
    Example: dpsim collective --steps --ranks 4 --algorithm ring
    Example: dpsim collective --steps --ranks 8 --algorithm ring,halving-doubling --html steps.html
    Example: dpsim collective --ranks 8 --algorithm ring --msccl ring.xml
    """
    check_plot(plot)
    if html is not None and not steps:
        raise DpsimError("--html: must stand with --steps, but got it alone")
    if msccl is not None:
        _write_msccl(msccl, ranks, cluster, nodes, algorithm or "ring", operation)
        return
    if nccl_tuner is not None:
        sizes = _sizes(begin, end, factor)
        _write_nccl_tuner(nccl_tuner, cluster, nodes, operation, sizes, itemsize, as_json)
        return
    if steps and html is None:
        _show_steps(ranks, algorithm or "ring", operation, as_json)
        return
    # A page without a network plays the rounds alone, and says nothing of times.
    network, gamma = None, 0.0
    if html is None or cluster is not None or bandwidth is not None:
        network, gamma = _network(ranks, bandwidth, latency, cluster, nodes)
    costs = _time("--overhead", overhead), gamma

    if html is not None or network is None:
        assert html is not None
        _write_steps(html, ranks, algorithm or "ring", operation, begin, network, costs, itemsize)
        return

    kind = _model_kind(network_model)
    found = _times(
        network,
        _runs(algorithm, library, operation, network, kind),
        _sizes(begin, end, factor),
        operation=operation,
        kind=kind,
        costs=costs,
        starts=_starts(network, skew, seed),
        itemsize=itemsize,
    )
    draw(plot, found.to_json())
    _show(found, as_json)


def _sizes(begin: str, end: str | None, factor: float) -> list[int]:
    from dpsim.studies.collective import parse_size, size_range

    smallest = _option("-b", parse_size, begin)
    largest = smallest if end is None else _option("-e", parse_size, end)
    return size_range(smallest, largest, factor)


def _starts(network: Network, skew: str | None, seed: int) -> FloatArray | None:
    from dpsim.studies.collective import exponential_starts

    return None if skew is None else exponential_starts(network.ranks, _time("--skew", skew), seed)


def _times(
    network: Network,
    runs: list[tuple[str, str]],
    sizes: list[int],
    *,
    costs: tuple[float, float],
    **how: Any,
) -> CollectiveTimes:
    from dpsim.base.budget import limited
    from dpsim.network import MessageCosts
    from dpsim.studies.collective import CollectiveTimes, collective_rows

    messages = MessageCosts(*costs)
    with limited():
        rows = [
            row
            for name, library in runs
            for row in collective_rows(
                network, [name], sizes, costs=messages, library=library, **how
            )
        ]
        return CollectiveTimes(tuple(rows))


def _show(found: CollectiveTimes, as_json: bool) -> None:
    from dpsim.report.text.tables import collective_table

    if as_json:
        show_json(found.to_json())
    else:
        show(collective_table(found.rows))


def _write_msccl(
    path: Path,
    ranks: int | None,
    cluster: str | None,
    nodes: int | None,
    algorithms: str,
    operation: str,
) -> None:
    """The rounds of one algorithm for MSCCL, of ranks with a node each or as a cluster has them."""
    from dpsim.base.terminal import narrate, write_whole
    from dpsim.collectives import algorithm as known
    from dpsim.network import schedule_on
    from dpsim.report.exports.msccl import MOST_RANKS, msccl_text
    from dpsim.studies.collective import named_cluster

    names = _algorithms(algorithms, operation)
    if len(names) > 1:
        raise DpsimError(f"--algorithm: must name one with --msccl, but got {algorithms!r}")
    of = known(names[0], operation)
    if cluster is not None:
        network, _ = named_cluster(cluster, nodes)
        ranks = network.ranks
    if ranks is None:
        raise DpsimError("--msccl: must have --ranks or --cluster, but got neither")
    # Of too many ranks, not even the schedule is made.
    if ranks > MOST_RANKS:
        raise DpsimError(f"--msccl: ranks must be from 2 to {MOST_RANKS}, but got {ranks}")
    schedule = of.schedule(ranks) if cluster is None else schedule_on(network, of)
    write_whole(path, msccl_text(schedule, path))
    narrate(f"wrote {path}")


def _write_nccl_tuner(
    path: Path,
    cluster: str | None,
    nodes: int | None,
    operation: str,
    sizes: list[int],
    itemsize: int,
    as_json: bool,
) -> None:
    """What NCCL had best choose at each size, as a file for its tuner plugin and as a table."""
    from dpsim.base.budget import limited
    from dpsim.base.terminal import narrate, write_whole
    from dpsim.report.exports.nccl_tuner import nccl_tuner_text
    from dpsim.report.text.nccl_choices import nccl_choices_table
    from dpsim.studies.collective import named_cluster
    from dpsim.studies.nccl_choices import nccl_choices

    if sizes[0] == 0:
        raise DpsimError("-b: must be above 0, but got '0'")
    if cluster is None:
        raise DpsimError("--nccl-tuner: must stand with --cluster, but got no cluster")
    with limited():
        found = nccl_choices(named_cluster(cluster, nodes)[0], sizes, operation, itemsize)
    write_whole(path, nccl_tuner_text(found))
    narrate(f"wrote {path}")
    if as_json:
        show_json(found.to_json())
    else:
        show(nccl_choices_table(found))


def _show_steps(ranks: int | None, algorithm: str, operation: str, as_json: bool) -> None:
    """The rounds of a schedule of ranks with a node each."""
    from dpsim.collectives import algorithm as known
    from dpsim.collectives import algorithm_names
    from dpsim.report.text.rounds import rounds_text, transfers

    if ranks is None or ranks > _MOST_SHOWN:
        raise DpsimError(
            f"--steps: --ranks must be from 1 to {_MOST_SHOWN}, but "
            f"{'is missing' if ranks is None else f'got {ranks}'}"
        )
    # The default is a ring, and not every operation has one.
    if operation != "all-reduce" and algorithm == "ring":
        algorithm = algorithm_names(operation)[0]
    schedule = known(algorithm, operation).schedule(ranks)
    if not as_json:
        show(*rounds_text(schedule))
        return

    rounds = [transfers(each) for each in schedule.each_round()]
    asked = {"operation": operation, "algorithm": algorithm, "ranks": ranks}
    told = {**asked, "chunks": schedule.chunks, "rounds": rounds}
    show_json({"schema_version": 1, "kind": "collective-steps", **told})


def _write_steps(
    html: Path,
    ranks: int | None,
    algorithms: str,
    operation: str,
    size: str,
    network: Network | None,
    costs: tuple[float, float],
    itemsize: int,
) -> None:
    """A page that plays the rounds of one algorithm, or of two side by side."""
    from dpsim.base.terminal import narrate, write_whole
    from dpsim.collectives import algorithm as known
    from dpsim.network import MessageCosts, schedule_on
    from dpsim.report.pages.steps_page import steps_page
    from dpsim.studies.collective import parse_size
    from dpsim.studies.walkthrough import MOST_RANKS, walk

    names = _algorithms(algorithms, operation)
    if len(names) > _MOST_BESIDE:
        raise DpsimError(
            f"--algorithm: must name at most {_MOST_BESIDE} with --html, but got {len(names)}"
        )
    if network is None and (ranks is None or ranks > MOST_RANKS):
        got = "is missing" if ranks is None else f"got {ranks}"
        raise DpsimError(f"--html: --ranks must be from 1 to {MOST_RANKS}, but {got}")

    nbytes = _option("-b", parse_size, size)
    walks = []
    for name in names:
        of = known(name, operation)
        schedule = of.schedule(ranks or 1) if network is None else schedule_on(network, of)
        walks.append(walk(schedule, nbytes, network, MessageCosts(*costs), itemsize))
    write_whole(html, steps_page(walks))
    narrate(f"wrote {html}")


def _network(
    ranks: int | None, bandwidth: str | None, latency: str, cluster: str | None, nodes: int | None
) -> tuple[Network, float]:
    """The network that the options of ``collective`` describe, and its seconds per byte reduced."""
    from dpsim.base.units import RATE, parse
    from dpsim.studies.collective import named_cluster
    from dpsim.topology import UniformSwitch

    if cluster is not None:
        if ranks is not None or bandwidth is not None:
            raise DpsimError("--cluster must stand without --ranks and --bandwidth, but got both")
        return named_cluster(cluster, nodes)
    if ranks is None or bandwidth is None:
        raise DpsimError(
            "must have either --cluster, or --ranks with --bandwidth, but got neither in full"
        )
    rate = _option("--bandwidth", lambda text: parse(text, RATE), bandwidth)
    if rate <= 0:
        raise DpsimError(f"--bandwidth: must be above 0, but got {bandwidth!r}")
    return UniformSwitch(ranks, rate, _time("--latency", latency)), 0.0


def _runs(
    names: str | None, asked: str | None, operation: str, network: Network, kind: ModelKind
) -> list[tuple[str, str]]:
    """The algorithms that are timed, each with whose it is.

    Algorithms that are named are compared as schedules unless a library is asked for.
    """
    library = asked or ("ideal" if names else "auto")
    # The library's own choice; where there is no library, a schedule must be named.
    if names is None:
        found = _library(library, "auto", operation, network, kind)
        return [(_algorithms("ring", operation)[0] if found == "ideal" else "auto", found)]
    return [
        (name, _library(library, name, operation, network, kind))
        for name in _algorithms(names, operation)
    ]


def _library(
    library: str, algorithm: str, operation: str, network: Network, kind: ModelKind
) -> str:
    """``library``, or what "auto" is for the algorithm; a model of the network is of no library."""
    from dpsim.network import automatic_library

    if library != "auto":
        return library
    if kind != "auto":
        return "ideal"
    found, _ = automatic_library(algorithm, network, operation=operation)
    return found


def _algorithms(names: str, operation: str) -> list[str]:
    from dpsim.collectives import algorithm_names

    known = algorithm_names(operation)
    # A ring is asked for by default, also of an operation whose one algorithm has another name.
    if names == "all" or (names == "ring" and operation != "all-reduce" and len(known) == 1):
        return list(known)
    return [name.strip() for name in names.split(",")]


def _model_kind(name: str) -> ModelKind:
    from dpsim.base.errors import UnknownNameError
    from dpsim.network import MODEL_KINDS

    if name not in MODEL_KINDS:
        raise UnknownNameError("network model", name, MODEL_KINDS)
    return cast("ModelKind", name)


def _time(option: str, text: str) -> float:
    from dpsim.base.units import TIME, parse

    seconds = _option(option, lambda value: parse(value, TIME), text)
    if seconds < 0:
        raise DpsimError(f"{option}: must be at least 0, but got {text!r}")
    return seconds


def _option(option: str, read: Callable[[str], T], text: str) -> T:
    """``read(text)``; an error says which option it is about."""
    try:
        return read(text)
    except DpsimError as error:
        raise DpsimError(f"{option}: {error}") from None
