"""``dpsim advise``: recommend changes to a program whose step was traced."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.terminal import narrate, show, show_answer
from dpsim.commands.options import Json

if TYPE_CHECKING:
    from dpsim.studies.advise import Advice


def advise(
    file: Annotated[
        Path,
        typer.Argument(
            help="Trace of PyTorch's profiler, of some steps on several GPUs.", show_default=False
        ),
    ],
    as_json: Json = False,
) -> None:
    """Recommend buckets, or sharding, for a traced step, with the code to write.

    Example: dpsim advise trace.json
    """
    from dpsim.commands.functions import advise as advise_on

    advice = advise_on(file)
    for note in advice.notes:
        narrate(f"note: {note}")
    if as_json:
        show_answer("advise", **advice.to_json())
        return
    show("\n".join(_lines(advice)))


def _lines(advice: Advice) -> list[str]:
    """Return the advice, a line each."""
    from dpsim.base.units import TIME, human

    step = human(advice.step_s, TIME)
    best = human(advice.best_s, TIME)
    lines = [f"step        {step} as traced, {best} at best: {advice.gain:.1%} less"]
    if None not in (advice.idle_s, advice.communication_s, advice.exposed_s):
        whole, exposed = advice.communication_s or 0.0, advice.exposed_s or 0.0
        hidden = human(max(whole - exposed, 0.0), TIME)
        lines.append(
            f"traced      {human(whole, TIME)} of communication: {human(exposed, TIME)} exposed, "
            f"{hidden} overlapped; idle for {human(advice.idle_s or 0.0, TIME)}"
        )
    if advice.within_error:
        lines.append(
            f"warning     that gain is within the error: the model of this step is off by "
            f"{advice.error:.1%}; leave it as it is"
        )
    else:
        lines.append(f"error       the model of this step is off by {advice.error:.1%}")
    if advice.bucket_cap_mb is not None:
        lines.append(
            f"buckets     {advice.bucket_cap_mb:g} MiB, the first {advice.first_bucket_mb:g} MiB"
        )
    if advice.unit_mb is not None:
        freed = "freed after forward" if advice.reshard_after_forward else "kept until backward"
        lines.append(
            f"units       {advice.unit_mb:,.3g} MiB of weights, {advice.prefetch} ahead, {freed}"
        )
    return [*lines, f"code        {advice.code}"]
