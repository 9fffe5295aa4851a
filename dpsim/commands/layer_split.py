"""``dpsim layer-split``: compare layer splits with data parallelism at the same global batch."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.terminal import show, show_answer, table
from dpsim.commands.options import File, Json, Sets, whole_numbers
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from rich.table import Table

    from dpsim.studies.layer_split import Arrangement

_HEADINGS = ("GPUs", "way", "micro-batches", "step", "samples/s", "idle", "sent", "fullest GPU")


def layer_split(
    file: File,
    devices: Annotated[
        str, typer.Option(metavar="P,P,...", help="Numbers of GPUs to split the model over.")
    ] = "2,4,8",
    micro_batches: Annotated[
        str,
        typer.Option(
            metavar="K,K,...",
            help="Numbers of micro-batches; with 1, only one GPU computes at a time.",
        ),
    ] = "1,4,16",
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Compare data parallelism with a model that is split into stages of layers.

    It predicts stages that run one after the other, and pipelined stages.

    The global batch is the scenario's, whatever the number of devices; disturbances are left out.

    Example: dpsim layer-split scenarios/layer-split.yaml --devices 2,4,8 --micro-batches 1,4,16
    """
    from dpsim.scenario import load_scenario
    from dpsim.studies.layer_split import arrangements

    scenario = load_scenario(file, set_ or ())
    counts = whole_numbers("--devices", devices)
    parts = whole_numbers("--micro-batches", micro_batches)
    rows: list[Arrangement] = []
    with progress("simulating", len(counts)) as done:
        for number, count in enumerate(counts, 1):
            rows += arrangements(scenario, count, parts)
            done(number)
    if as_json:
        show_answer(
            "layer-split",
            name=scenario.name,
            global_batch=scenario.global_batch,
            rows=[each.to_json() for each in rows],
        )
        return
    show(_table(f"{scenario.name}: a global batch of {scenario.global_batch}", rows))


def _table(title: str, rows: Iterable[Arrangement]) -> Table:
    """Return a table with a row for each arrangement, grouped by number of GPUs."""
    from dpsim.base.units import DATA, TIME, human

    made = table(title, _HEADINGS, (), left=("way",))
    for _, alike in groupby(rows, lambda each: each.devices):
        for each in alike:
            memory = human(each.memory.held.total, DATA, 3)
            made.add_row(
                str(each.devices),
                each.way,
                str(each.micro_batches or ""),
                human(each.step_time_s, TIME, 4),
                f"{each.throughput_samples_per_s:,.1f}",
                f"{each.idle:.1%}",
                human(each.bytes_sent, DATA, 3),
                memory if each.memory.fits else f"{memory}, too much",
            )
        made.add_section()
    return made
