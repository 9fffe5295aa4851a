"""``dpsim validate testbed``: run a command, or a self-check, on hosts with limited links."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show, show_answer, table
from dpsim.commands.options import read_option
from dpsim.commands.validate.options import timeout_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from validate.ranks.launch import Run
    from validate.ranks.testbed import CheckRow, Testbed, TestbedConfig


Command = Annotated[
    list[str] | None,
    typer.Argument(
        help="Command to run once per host, after --; a self-check if left out.",
        show_default=False,
    ),
]
Hosts = Annotated[
    int | None, typer.Option(help="Number of hosts; 4 if left out.", show_default=False)
]
Rate = Annotated[
    str | None,
    typer.Option(help='Rate of all links in each direction: "100 Mbit/s".', show_default=False),
]
Rates = Annotated[
    str | None,
    typer.Option(
        metavar="RATE,...",
        help="Rate of each host's link, comma-separated.",
        show_default=False,
    ),
]
Topology = Annotated[
    Path | None,
    typer.Option(
        help="A YAML file with hosts, rate, mtu, racks; options override its values.",
        show_default=False,
    ),
]
Timeout = Annotated[str, typer.Option(help="Time after which ranks are stopped.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON, and the ranks' output on stderr.")
]


def run_on_testbed(
    command: Command = None,
    hosts: Hosts = None,
    rate: Rate = None,
    rates: Rates = None,
    topology: Topology = None,
    timeout: Timeout = "300 s",
    as_json: AsJson = False,
) -> None:
    """Run a command on hosts with links of known rates, made of network namespaces.

    Needs root on Linux. Each host runs the command once, with RANK, WORLD_SIZE, MASTER_ADDR and
    torchrun's other variables. Lines of output begin with the rank. Everything is taken down at
    the end, also after Ctrl-C. The exit code is 1 if a rank fails or the machine lacks something.
    Without a command, TCP throughput is measured and compared with the rates.

    Example: dpsim validate testbed --hosts 4 --rate "100 Mbit/s"
    Example: dpsim validate testbed --rates "100 Mbit/s,50 Mbit/s" -- python train.py
    """
    config = _config(hosts, rate, rates, topology)
    seconds = timeout_seconds(timeout)
    from validate.ranks.testbed import Testbed, check

    with Testbed(config) as up:
        if command:
            _run(up, command, seconds, as_json)
            return
        rows = check(up, timeout_s=seconds)
    if as_json:
        _show_json(config, rows=[row.to_json() for row in rows])
    else:
        show(_table(config, rows))


def _config(
    hosts: int | None, rate: str | None, rates: str | None, topology: Path | None
) -> TestbedConfig:
    """Return the testbed described by the options and the file.

    Raises DpsimError with the option or the place in the file.
    """
    from dpsim.scenario import Document, load_yaml, validate
    from validate.ranks.testbed import TestbedConfig, load_testbed

    if rate is not None and rates is not None:
        raise DpsimError("--rate must not be given with --rates, but got both")

    options: dict[str, Any] = {}
    if rates is not None:
        options["rate"] = [_rate("--rates", one.strip()) for one in rates.split(",")]
        options["hosts"] = len(options["rate"])
    if rate is not None:
        options["rate"] = _rate("--rate", rate)
    if hosts is not None:
        options["hosts"] = hosts

    if topology is None:
        return validate(Document.of(options, "testbed"), TestbedConfig)
    config = load_testbed(topology)
    if not options:
        return config
    # Options replace values of the file and may conflict with the rest, so validate both together.
    file_content = load_yaml(topology).plain()
    assert isinstance(file_content, dict)
    return validate(Document.of({**file_content, **options}, "testbed"), TestbedConfig)


def _rate(option: str, text: str) -> str:
    from dpsim.base.units import RATE, parse

    # Parse the rate here so that an error names the option; the configuration keeps the text.
    read_option(option, lambda value: parse(value, RATE), text)
    return text


def _run(up: Testbed, command: list[str], timeout_s: float, as_json: bool) -> None:
    """Run the command on every host; the output of the ranks is shown as it arrives."""
    from validate.ranks.launch import RunFailed, launch

    def show_line(rank: int, stream: str, line: str) -> None:
        # With --json, stdout only has the JSON.
        out = sys.stderr if as_json or stream == "stderr" else sys.stdout
        out.write(f"[{rank}] {line}\n")
        out.flush()

    try:
        run = launch(command, up.hosts, timeout_s=timeout_s, on_line=show_line)
    except RunFailed as error:
        # Show the ranks' output before the failure too.
        _end(up, error.run, error.to_json(), as_json)
        raise
    _end(up, run, None, as_json)


def _end(up: Testbed, run: Run, failed: dict[str, Any] | None, as_json: bool) -> None:
    for note in run.notes:
        narrate(f"note: {note}")
    if as_json:
        _show_json(up.config, run=run.to_json(), failed=failed)


def _show_json(
    config: TestbedConfig, *, rows: Any = None, run: Any = None, failed: Any = None
) -> None:
    """Show the same keys with and without a command; missing ones are null."""
    show_answer("validate-testbed", testbed=_to_json(config), rows=rows, run=run, failed=failed)


def _to_json(config: TestbedConfig) -> dict[str, Any]:
    racks = config.racks and {
        "racks": [list(rack) for rack in config.racks.racks],
        "uplink_Bps": config.racks.uplink,
    }
    return {
        "hosts": config.hosts,
        "rates_Bps": list(config.rates),
        "mtu": config.mtu,
        "racks": racks,
    }


def _table(config: TestbedConfig, rows: list[CheckRow]) -> Table:
    from validate.ranks.testbed import goodput_fraction

    goodput = goodput_fraction(config.mtu)
    title = (
        f"TCP on {config.hosts} hosts; a stream's own bytes should get {goodput:.2%} of the rate"
    )
    headings = ("pattern", "bytes", "nominal (ms)", "measured (ms)", "measured / nominal")
    cells = (
        (
            row.pattern,
            f"{row.bytes:,}",
            f"{1e3 * row.nominal_s:.1f}",
            f"{1e3 * row.measured_s:.1f}",
            f"{row.ratio:.3f}",
        )
        for row in rows
    )
    return table(title, headings, cells, left=("pattern",))
