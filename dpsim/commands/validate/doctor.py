"""``dpsim validate doctor``: what this machine can measure, and what prevents it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpsim.base.terminal import show, show_answer
from dpsim.base.units import DATA, RATE, human
from dpsim.commands.options import Json
from dpsim.commands.validate.options import torch_first


def doctor(as_json: Json = False) -> None:
    """Say in seconds what this machine can measure, what is in the way, and for how long.

    GPUs with their clocks, memory and other processes, how they are joined, network cards, versions
    of torch, CUDA, NCCL and the driver; then each problem in one sentence, and what dpsim validate
    node would measure. Nothing is measured, and nothing changes.

    Example: dpsim validate doctor
    """
    torch_first("doctor")
    from validate.node import diagnosis

    found = diagnosis()
    if as_json:
        show_answer("validate-doctor", **found)
    else:
        show(*_lines(found))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    versions = found["versions"]
    yield f"machine   {found['machine']['cpu']}, {found['machine']['cores']} cores"
    yield "versions  " + ", ".join(f"{what} {which}" for what, which in versions.items() if which)
    for number, gpu in enumerate(found["gpus"]):
        used, memory = (human(gpu[f"{what}_bytes"], DATA, 3) for what in ("used", "memory"))
        clocks = f"{gpu['clock_hz'] / 1e6:.0f} of {gpu['max_clock_hz'] / 1e6:.0f} MHz"
        yield f"GPU {number}     {gpu['name']}, {used} of {memory} in use, {clocks}"
    if found["links"]:
        pairs = found["links"]["pairs"].items()
        yield "links     " + ", ".join(f"{count} pairs by {kind}" for kind, count in pairs)
    for nic in found["nics"]:
        rate = "" if nic["rate_Bps"] is None else f", {human(nic['rate_Bps'], RATE, 3)}"
        yield f"network   {nic['name']}, {nic['kind']}{rate}"
    yield f"backends  {', '.join(found['backends'])}"
    yield ""
    for problem in found["problems"] or ["nothing is in the way"]:
        yield f"- {problem}"
    if found["plan"]:
        yield ""
        minutes = found["seconds"] / 60
        yield f"dpsim validate node takes about {minutes:.0f} minutes on {found['device']}:"
    for item in found["plan"]:
        yield f"  {item['seconds']:4.0f} s  {item['name']}"
