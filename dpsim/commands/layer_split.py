"""``dpsim layer-split``.

A model split by layers over devices, beside data parallelism of the same global batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.base.budget import limited
from dpsim.base.terminal import show, show_json
from dpsim.commands.options import File, Json, Sets, whole_numbers
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from rich.table import Table

    from dpsim.engine import MemoryUse
    from dpsim.scenario import Scenario


@limited()
def layer_split(
    file: File,
    devices: Annotated[
        str, typer.Option(metavar="P,P,...", help="Numbers of GPUs to split the model over.")
    ] = "2,4,8",
    micro_batches: Annotated[
        str,
        typer.Option(
            metavar="K,K,...",
            help="Numbers of micro-batches; with 1, one GPU works at a time.",
        ),
    ] = "1,4,16",
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Compare data parallelism with a model that is split into stages of layers.

    The stages are predicted one after the other and pipelined.

    The global batch is the scenario's, whatever the number of devices; disturbances are left out.

    Example: dpsim layer-split scenarios/layer-split.yaml --devices 2,4,8 --micro-batches 1,4,16
    """
    from dpsim.scenario import load_scenario

    scenario = load_scenario(file, set_ or ())
    counts, parts = (
        whole_numbers("--devices", devices),
        whole_numbers("--micro-batches", micro_batches),
    )
    with progress("simulating", len(counts)) as done:
        rows = []
        for number, count in enumerate(counts, 1):
            rows += _rows(scenario, count, parts)
            done(number)
    if as_json:
        show_json(
            {
                "schema_version": 1,
                "kind": "layer-split",
                "name": scenario.name,
                "global_batch": scenario.global_batch,
                "rows": rows,
            }
        )
    else:
        show(_table(f"{scenario.name}: a global batch of {scenario.global_batch}", rows))


def _rows(scenario: Scenario, devices: int, parts: list[int]) -> list[dict[str, Any]]:
    """Data parallelism on ``devices``, then the model split over them."""
    from dpsim.engine import simulate
    from dpsim.studies.layer_split import LayerSplit, layer_split, on_devices

    batch = scenario.global_batch
    together = simulate(on_devices(scenario, devices))
    # Only results that tests make by hand have none.
    assert together.memory is not None
    step = together.step_time_s["mean"]
    # Whatever is not computing, as of a pipeline (`LayerSplit.idle`).
    idle = 1 - together.parts_s["compute"] / step
    split: list[LayerSplit] = [layer_split(scenario, devices, count) for count in parts]
    return [
        _row(devices, None, step, batch, idle, together.traffic.sent_in_total, together.memory),
        *(
            _row(
                devices,
                one.micro_batches,
                one.pipeline.step,
                batch,
                one.idle,
                one.bytes_sent,
                one.memory,
            )
            for one in split
        ),
    ]


def _row(
    devices: int,
    parts: int | None,
    step: float,
    batch: int,
    idle: float,
    sent: float,
    memory: MemoryUse,
) -> dict[str, Any]:
    return {
        "devices": devices,
        "way": "data-parallel" if parts is None else "layer-split",
        "micro_batches": parts,
        "step_time_s": step,
        "throughput_samples_per_s": batch / step,
        "idle": idle,
        "bytes_sent_total": round(sent),
        "memory_bytes": memory.held.total,
        "fits": memory.fits,
    }


def _table(title: str, rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    from dpsim.base.units import DATA, TIME, human

    table = Table(title=title, title_justify="left", show_edge=False)
    for heading in (
        "GPUs",
        "way",
        "micro-batches",
        "step",
        "samples/s",
        "idle",
        "sent",
        "fullest GPU",
    ):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for row in rows:
        memory = human(row["memory_bytes"], DATA, 3) + ("" if row["fits"] else ", too much")
        table.add_row(
            str(row["devices"]),
            row["way"],
            str(row["micro_batches"] or ""),
            human(row["step_time_s"], TIME, 4),
            f"{row['throughput_samples_per_s']:,.1f}",
            f"{row['idle']:.1%}",
            human(row["bytes_sent_total"], DATA, 3),
            memory,
            end_section=row is rows[-1] or row["devices"] != rows[rows.index(row) + 1]["devices"],
        )
    return table
