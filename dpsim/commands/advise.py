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

    found = advise_on(file)
    for note in found.notes:
        narrate(f"note: {note}")
    if as_json:
        show_answer("advise", **found.to_json())
        return
    show("\n".join(_lines(found)))


def _lines(found: Advice) -> list[str]:
    """Return the advice, a line each."""
    from dpsim.base.units import TIME, human

    step, best = human(found.step_s, TIME), human(found.best_s, TIME)
    lines = [f"step        {step} as traced, {best} at best: {found.gain:.1%} less"]
    if None not in (found.idle_s, found.communication_s, found.exposed_s):
        whole, exposed = found.communication_s or 0.0, found.exposed_s or 0.0
        hidden = human(max(whole - exposed, 0.0), TIME)
        lines.append(
            f"traced      {human(whole, TIME)} of communication: {human(exposed, TIME)} exposed, "
            f"{hidden} overlapped; idle for {human(found.idle_s or 0.0, TIME)}"
        )
    if found.within_error:
        lines.append(
            f"warning     that gain is within the error: the model of this step is off by "
            f"{found.error:.1%}; leave it as it is"
        )
    else:
        lines.append(f"error       the model of this step is off by {found.error:.1%}")
    if found.bucket_cap_mb is not None:
        lines.append(
            f"buckets     {found.bucket_cap_mb:g} MiB, the first {found.first_bucket_mb:g} MiB"
        )
    if found.unit_mb is not None:
        freed = "freed after forward" if found.reshard_after_forward else "kept until backward"
        lines.append(
            f"units       {found.unit_mb:,.3g} MiB of weights, {found.prefetch} ahead, {freed}"
        )
    return [*lines, f"code        {found.code}"]
