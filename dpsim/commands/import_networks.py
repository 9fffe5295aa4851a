"""``dpsim import``: networks, from schedulers' configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.commands.import_options import KnownModel, KnownNode, read_file, show_scenario
from dpsim.commands.options import Json, Output, read_option

SlurmFile = Annotated[
    Path,
    typer.Argument(help="Slurm's topology.conf or topology.yaml.", show_default=False),
]
Topology = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Topology in a topology.yaml; its default if left out."),
]
Switch = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Only nodes below this switch or block."),
]
Nic = Annotated[
    str | None,
    typer.Option(metavar="LINK", help="Each card's link (dpsim catalogue links)."),
]
Oversubscription = Annotated[
    float | None,
    typer.Option(
        min=1,
        max=1e6,
        help=(
            "Oversubscription of a leaf: its rate to its nodes divided by its rate to the spines."
        ),
    ),
]
SpeedUnit = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="Rate of LinkSpeed 1, such as '1 Gbit/s'."),
]


def slurm_topology(
    file: SlurmFile,
    output: Output = None,
    topology: Topology = None,
    switch: Switch = None,
    model: KnownModel = None,
    node: KnownNode = None,
    nic: Nic = None,
    oversubscription: Oversubscription = None,
    speed_unit: SpeedUnit = None,
    as_json: Json = False,
) -> None:
    """Turn Slurm's topology.conf or topology.yaml into a scenario with that network.

    Equal leaf switches below the same spines become a leaf-spine fabric, other trees a custom
    network. Slurm knows which nodes are on which switch but no rates: these are given by options,
    or assumed.

    Example: dpsim import slurm-topology topology.conf --node dgx-h100 --oversubscription 2
    Example: dpsim import slurm-topology topology.yaml --topology gpus --switch rack7
    """
    from dpsim.base.units import RATE, parse
    from dpsim.imports.slurm_topology import SlurmOptions, scenario_from_slurm

    unit = None
    if speed_unit is not None:
        unit = read_option("--speed-unit", lambda text: parse(text, RATE), speed_unit)
        if unit <= 0:
            raise DpsimError(f"--speed-unit: must be above 0, but got {speed_unit!r}")
    options = SlurmOptions(topology, switch, model, node, nic, oversubscription, unit)
    draft = read_file(file, lambda content: scenario_from_slurm(content, file.name, options))
    show_scenario(file, draft, output, as_json)
