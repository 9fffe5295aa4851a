"""``dpsim validate run``: run a scenario on real ranks, and compare with its prediction."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import save, show, show_json, table
from dpsim.base.units import DATA, human
from dpsim.commands.options import File, Json, Sets
from dpsim.commands.validate.options import timeout_seconds, torch_first

if TYPE_CHECKING:
    from rich.table import Table

    from validate.emulate import Case
    from validate.run import StepRun


Testbed = Annotated[
    str | None,
    typer.Option(
        metavar="KEY=VALUE,...|FILE",
        help=(
            'Testbed instead of the scenario\'s cluster: "hosts=4,rate=100 Mbit/s", or a YAML file.'
        ),
        show_default=False,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="Run on this node's devices, not on a testbed: cpu, cuda or auto.",
        show_default=False,
    ),
]
Backend = Annotated[
    str, typer.Option(help="The backend of torch.distributed on this node: auto, gloo or nccl.")
]
Compute = Annotated[
    str | None,
    typer.Option(
        help=(
            "real: the scenario's model (on a testbed, a small network); timed: passes take their "
            "predicted times. If left out: real on a node, timed on a testbed."
        ),
        show_default=False,
    ),
]
AsHere = Annotated[
    bool,
    typer.Option(
        "--as-here", help="Replace the scenario's hardware by this node's, and keep the rest."
    ),
]
Repeat = Annotated[
    int,
    typer.Option(min=1, max=100, help="Number of runs; the median over runs counts for each step."),
]
Timeout = Annotated[
    str | None,
    typer.Option(
        help="Time after which ranks are stopped; 180 s plus 4 times the prediction if left out."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write the run, which compare reads, to this path."),
]


def run(
    file: File,
    testbed: Testbed = None,
    set_: Sets = None,
    device: Device = None,
    backend: Backend = "auto",
    compute: Compute = None,
    as_here: AsHere = False,
    repeat: Repeat = 1,
    timeout: Timeout = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Run a scenario on real ranks and predict it, side by side.

    With --device, or without a testbed in the scenario, its model, batch and strategy run in torch
    on this node's devices. Otherwise it runs on a testbed, which needs root on Linux. Under
    torchrun the ranks are the launcher's, on one node or several.

    Example: dpsim validate run scenario.yaml --device cuda --backend nccl --as-here --json
    Example: dpsim validate run scenarios/testbed/allreduce.yaml
    Example: dpsim validate run scenarios/testbed/overlap.yaml --set strategy.overlap.kind=priority
        --repeat 3 -o run.json
    Example: torchrun --nproc-per-node 4 -m validate run scenarios/testbed/allreduce.yaml --json
    """
    seconds = None if timeout is None else timeout_seconds(timeout)
    if compute not in (None, "timed", "real"):
        raise DpsimError(f"--compute must be real or timed, but got {compute!r}")
    torch_first("run")
    from validate.emulate import Case
    from validate.run import PartialRunError

    case = Case(str(file), (*_testbed_settings(testbed), *(set_ or ())))
    on_testbed = device is None and not as_here and case.scenario().testbed is not None
    try:
        if on_testbed:
            step_run = _on_testbed(case, compute or "timed", repeat, seconds)
        else:
            from validate.node import on_node

            step_run = on_node(
                case,
                device=device or "auto",
                backend=backend,
                compute=compute or "real",
                take_what_is_here=as_here,
                timeout_s=seconds,
            )
    except PartialRunError as error:
        # Minutes of measurements are kept even if a rank failed.
        for partial in error.runs:
            _deliver(partial, output, as_json)
        raise
    if step_run is not None:
        _deliver(step_run, output, as_json)


def _on_testbed(case: Case, compute: str, repeat: int, seconds: float | None) -> StepRun | None:
    """Run on the hosts of the scenario's testbed, or as one of the ranks of a launcher."""
    from validate.run import here, on_testbed, real_run

    if compute == "real":
        return real_run(case, timeout_s=seconds)
    # A launcher such as torchrun sets RANK in each of its ranks.
    if "RANK" in os.environ:
        return here(case, repetitions=repeat)
    (step_run,) = on_testbed([case], repetitions=repeat, timeout_s=seconds)
    return step_run


def _testbed_settings(text: str | None) -> tuple[str, ...]:
    """Return the settings for ``--testbed``: the testbed instead of the cluster."""
    if text is None:
        return ()
    if "=" in text:
        described = "{" + text.replace("=", ": ") + "}"
    else:
        from dpsim.scenario import load_yaml
        from validate.ranks.testbed import load_testbed

        # Load the file only for its errors, which name the file and the line.
        load_testbed(text)
        # JSON is YAML that fits in one line.
        described = json.dumps(load_yaml(text).plain())
    # A scenario has either a cluster or a testbed, so remove the cluster.
    return ("cluster=null", f"testbed={described}")


def _deliver(step_run: StepRun, output: Path | None, as_json: bool) -> None:
    if output is not None:
        from dpsim.base.provenance import provenance
        from validate.records import RunRecords

        save(
            output,
            RunRecords(provenance=provenance(), runs=(step_run.record(),)).to_json(),
            f"{' (partial)' if step_run.failed else ''}",
        )
    if as_json:
        show_json(step_run.to_json())
    else:
        show(_table(step_run), "", *_notes(step_run))


def _table(step_run: StepRun) -> Table:
    from dpsim.engine import PARTS

    steps = step_run.measured.steps.compute.shape[0]
    title = f"{step_run.predicted.name}: {steps} steps on {step_run.predicted.workers} workers"
    headings = ("mean seconds of", "predicted (ms)", "measured (ms)", "difference (ms)")
    sides = step_run.predicted, step_run.measured
    # By label: the parts of a step, and other times.
    rows: dict[str, list[float | None]] = {"a step": [each.step_time_s["mean"] for each in sides]}
    rows |= {part.words: [each.parts_s[name] for each in sides] for name, part in PARTS.items()}
    rows |= {"overlapped communication": [each.overlapped_comm_s for each in sides]}
    rows |= {
        f"message {name}": [both["predicted_s"], both["measured_s"]]
        for name, both in step_run.collectives.items()
    }

    cells = (
        (name, _ms(predicted), _ms(measured), _ms((predicted or 0.0) - (measured or 0.0)))
        for name, (predicted, measured) in rows.items()
        if predicted or measured
    )
    return table(title, headings, cells, left=headings[:1])


def _ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.2f}"


def _notes(step_run: StepRun) -> list[str]:
    lines = [f"the predicted step is {step_run.error['step_time']:+.1%} off the measured one"]
    peaks = [human(value, DATA, 3) for value in step_run.memory.values() if value is not None]
    if len(peaks) == len(step_run.memory) == 2:
        lines.append(f"memory: {peaks[0]} predicted, {peaks[1]} measured at most")
    lines += [f"by {step_run.backend} on {step_run.device}", *step_run.notes]
    if not step_run.hidden:
        lines.append("overlapped communication was not timed separately")
    for what in ("clock_gap", "versions"):
        predicted, measured = (
            side.staleness[what]["mean"] for side in (step_run.predicted, step_run.measured)
        )
        if predicted or measured:
            lines.append(
                f"staleness, {what.replace('_', ' ')}: {predicted:.2f} predicted, {measured:.2f} "
                "measured"
            )
    predicted, measured = (
        side.staleness["dropped"] for side in (step_run.predicted, step_run.measured)
    )
    if predicted or measured:
        lines.append(f"dropped gradients: {predicted:.0%} predicted, {measured:.0%} measured")
    return lines
