"""The command line: a thin shell over the library.

Results go to stdout, narration and progress bars to stderr.

Exit codes: 0 done; 1 failed; 2 bad usage or bad scenario; 3 ran, but a part failed or is outside
the asked tolerance.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.base.terminal import show, show_json
from dpsim.commands.app import dashboard
from dpsim.commands.converge import converge
from dpsim.commands.explain import explain_app
from dpsim.commands.help import Commands
from dpsim.commands.imports import import_app
from dpsim.commands.layer_split import layer_split
from dpsim.commands.memory import memory
from dpsim.commands.progress import progress
from dpsim.commands.report import report
from dpsim.commands.results import results
from dpsim.commands.run import run
from dpsim.commands.scale import scale
from dpsim.commands.sweep import sweep
from dpsim.commands.topology import topology
from dpsim.commands.tune import tune
from dpsim.commands.validate import validate_app

if TYPE_CHECKING:
    from dpsim.topology import Network

T = TypeVar("T")

app = Commands(
    "Predicts how long a data-parallel training step takes on a cluster, where the time goes and "
    "what would change it."
)

File = Annotated[Path, typer.Argument(help="A scenario file (YAML).", show_default=False)]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Replace a value: cluster.nodes=8. Repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def compare(
    file: File,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=A,B,...", help="A field and its values. Repeat it for combinations."
        ),
    ],
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Predict variants of a scenario side by side, best first.

    Example: dpsim compare scenarios/quickstart.yaml --vary strategy.aggregation.algorithm=ring,tree,butterfly
    """
    from dpsim.studies.compare import simulate_variants, variants

    chosen = variants(vary)
    with progress("simulating variants", len(chosen)) as done, _said_of_vary(chosen):
        rows = sorted(
            simulate_variants(file, chosen, set_ or (), done),
            key=lambda row: row[1].step_time_s["mean"],
        )
    if as_json:
        show_json(
            {
                "schema_version": 1,
                "rows": [{"variant": variant, **result.to_json()} for variant, result in rows],
            }
        )
        return
    from dpsim.report.text.tables import compare_table

    show(compare_table(rows))


def collective(
    ranks: Annotated[
        int | None,
        typer.Option(
            min=1, max=2**20, help="Ranks on one uniform switch (with --bandwidth, --latency)."
        ),
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help='Rate of each rank\'s link, each way: "50 GB/s".')
    ] = None,
    latency: Annotated[
        str, typer.Option(help='Time a message spends on its way: "500 ns".')
    ] = "0 s",
    overhead: Annotated[str, typer.Option(help="Time that a message costs its sender.")] = "0 s",
    cluster: Annotated[
        str | None,
        typer.Option(help="A scenario file whose cluster to use, or a node of the catalogue."),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, max=2**20, help="Number of nodes, with --cluster.")
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help=(
                "Algorithms (dpsim catalogue algorithms), auto, or all; ring if left out, a "
                "library's choice with --library."
            ),
        ),
    ] = None,
    library: Annotated[
        str, typer.Option(help="Whose collective: ideal, nccl, gloo or mpi.")
    ] = "ideal",
    operation: Annotated[str, typer.Option(help="The collective operation.")] = "all-reduce",
    begin: Annotated[
        str, typer.Option("-b", "--begin", help="Smallest size: 8, 4K, 1M (binary), 1 MB.")
    ] = "1M",
    end: Annotated[
        str | None, typer.Option("-e", "--end", help="Largest size; the smallest if left out.")
    ] = None,
    factor: Annotated[
        float, typer.Option("-f", "--factor", help="Each size is so many times the one before.")
    ] = 2.0,
    network_model: Annotated[
        str, typer.Option(help="auto, rounds, flows or closed-form.")
    ] = "auto",
    skew: Annotated[
        str | None, typer.Option(help="Mean of each rank's own exponential start time: 1 ms.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the start times.")] = 0,
    itemsize: Annotated[int, typer.Option(min=1, max=16, help="Bytes of an element.")] = 4,
    as_json: Json = False,
) -> None:
    """Time one collective over sizes, with the columns of nccl-tests.

    Example: dpsim collective --ranks 1024 --bandwidth "50 GB/s" --latency "500 ns" --algorithm ring -b 100MB -e 100MB
    Example: dpsim collective --cluster dgx-a100 --nodes 4 --algorithm all -b 1M -e 1G -f 4
    Example: dpsim collective --cluster dgx-h100 --library nccl -b 8 -e 8G -f 2
    """
    from dpsim.base.budget import limited
    from dpsim.network import MessageCosts
    from dpsim.studies import collective as collectives

    network, gamma = _network(ranks, bandwidth, latency, cluster, nodes)
    smallest = _option("-b", collectives.parse_size, begin)
    largest = smallest if end is None else _option("-e", collectives.parse_size, end)
    with limited():
        rows = list(
            collectives.collective_rows(
                network,
                _algorithms(
                    algorithm or ("ring" if library == "ideal" else "auto"), operation, library
                ),
                collectives.size_range(smallest, largest, factor),
                operation=operation,
                kind=_model_kind(network_model),
                costs=MessageCosts(_time("--overhead", overhead), gamma),
                starts=None
                if skew is None
                else collectives.exponential_starts(network.ranks, _time("--skew", skew), seed),
                itemsize=itemsize,
                library=library,
            )
        )
    if as_json:
        show_json({"schema_version": 1, "rows": [row.to_json() for row in rows]})
        return
    from dpsim.report.text.tables import collective_table

    show(collective_table(rows))


def check(
    files: Annotated[list[Path], typer.Argument(help="Scenario files (YAML).", show_default=False)],
    as_json: Json = False,
) -> None:
    """Check scenario files: every problem with its line, column, path and rule.

    Exit code 2 where there is one.

    Example: dpsim check scenarios/quickstart.yaml
    Example: dpsim check scenarios/*.yaml --json
    """
    from dpsim.scenario import load_scenario
    from dpsim.studies.sweep import plan

    problems: dict[str, list[str]] = {}
    for file in files:
        try:
            if load_scenario(file).sweep is not None:
                plan([file])
            problems[str(file)] = []
        except ScenarioError as error:
            problems[str(file)] = str(error).splitlines()
    if as_json:
        show_json(
            {
                "schema_version": 1,
                "files": [{"file": name, "problems": found} for name, found in problems.items()],
            }
        )
    else:
        for name, found in problems.items():
            sys.stdout.write("\n".join(found or [f"{name}: ok"]) + "\n")
    if any(problems.values()):
        raise typer.Exit(2)


def schema() -> None:
    """Print the JSON Schema of scenario files, for editors that complete and check them.

    Example: dpsim schema > scenario.schema.json
    """
    from dpsim.scenario import Scenario, text

    sys.stdout.write(text(Scenario))


def catalogue(
    kind: Annotated[str, typer.Argument(help="gpus, links, nodes, models or algorithms.")] = "gpus",
    as_json: Json = False,
) -> None:
    """List what is known, with sources.

    Example: dpsim catalogue nodes
    Example: dpsim catalogue models --json
    """
    from dpsim.report.text.catalogue import CATALOGUES
    from dpsim.report.text.tables import catalogue_table

    rows = CATALOGUES[kind]()
    if as_json:
        show_json({"schema_version": 1, "kind": kind, "rows": rows})
    else:
        show(catalogue_table(rows))


# In the order in which --help lists them: what is asked first comes first.
_COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "compare": compare,
    "scale": scale,
    "tune": tune,
    "sweep": sweep,
    "results": results,
    "report": report,
    "collective": collective,
    "memory": memory,
    "topology": topology,
    "converge": converge,
    "layer-split": layer_split,
    "app": dashboard,
    "catalogue": catalogue,
    "check": check,
    "schema": schema,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
app.add_typer(explain_app, name="explain")
app.add_typer(import_app, name="import")
app.add_typer(validate_app, name="validate")


@contextmanager
def _said_of_vary(chosen: Iterable[Mapping[str, str]]) -> Iterator[None]:
    """What is wrong with a value is said of --vary, where it stands, and not of the --set that it
    is tried by.
    """
    try:
        yield
    except ScenarioError as error:
        text = str(error)
        for key, value in dict.fromkeys(pair for variant in chosen for pair in variant.items()):
            text = text.replace(f"--set {key}={value}: ", f"--vary {key}={value}: ")
        raise ScenarioError(text) from None


def _network(
    ranks: int | None, bandwidth: str | None, latency: str, cluster: str | None, nodes: int | None
) -> tuple[Network, float]:
    """The network that the options of ``collective`` describe, and seconds per byte reduced on it."""
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


def _algorithms(names: str, operation: str, library: str) -> list[str]:
    from dpsim.collectives import algorithm_names

    if library != "ideal":
        return [name.strip() for name in names.split(",")]
    known = algorithm_names(operation)
    if names == "all":
        return list(known)
    if operation != "all-reduce" and names == "ring" and len(known) == 1:
        return list(
            known
        )  # the option's default, where the operation has one algorithm of another name
    return [name.strip() for name in names.split(",")]


def _model_kind(name: str) -> Any:
    from dpsim.base.errors import UnknownNameError
    from dpsim.network import MODEL_KINDS

    if name not in MODEL_KINDS:
        raise UnknownNameError("network model", name, MODEL_KINDS)
    return name


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


def main() -> None:
    """Run the command line; what users got wrong is one clear message and exit code 2, never a
    traceback.
    """
    try:
        app()
    except DpsimError as error:
        _fail(str(error), error.status)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # nobody reads on: end quietly
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        _fail("interrupted", 1)
    except Exception as error:
        if os.environ.get("DPSIM_DEBUG"):
            raise
        _fail(f"failed: {type(error).__name__}: {error} (DPSIM_DEBUG=1 shows where)", 1)


def _fail(message: str, code: int) -> None:
    for line in message.splitlines():
        sys.stderr.write(f"dpsim: {line}\n")
    raise SystemExit(code)
