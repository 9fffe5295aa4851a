"""``dpsim validate doctor``: check what this machine can measure, and what prevents it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpsim.base.terminal import show, show_answer
from dpsim.base.units import DATA, RATE, human
from dpsim.commands.options import Json
from dpsim.commands.validate.options import torch_first


def doctor(as_json: Json = False) -> None:
    """Check within seconds what this machine can measure, how long, and what prevents it.

    Lists GPUs with their clocks, memory, other processes and links, network cards, versions of
    torch, CUDA, NCCL and the driver; then each problem in one sentence, and the measurements of
    dpsim validate node. Nothing is measured, and nothing changes.

    Example: dpsim validate doctor
    """
    torch_first("doctor")
    from validate.node import diagnosis

    report = diagnosis()
    if as_json:
        show_answer("validate-doctor", **report)
    else:
        show(*_lines(report))


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    versions = report["versions"]
    yield f"machine   {report['machine']['cpu']}, {report['machine']['cores']} cores"
    yield "versions  " + ", ".join(f"{what} {which}" for what, which in versions.items() if which)
    for number, gpu in enumerate(report["gpus"]):
        used, memory = (human(gpu[f"{what}_bytes"], DATA, 3) for what in ("used", "memory"))
        clocks = f"{gpu['clock_hz'] / 1e6:.0f} of {gpu['max_clock_hz'] / 1e6:.0f} MHz"
        yield f"GPU {number}     {gpu['name']}, {used} of {memory} in use, {clocks}"
    if report["links"]:
        pairs = report["links"]["pairs"].items()
        yield "links     " + ", ".join(f"{count} pairs by {kind}" for kind, count in pairs)
    for nic in report["nics"]:
        rate = "" if nic["rate_Bps"] is None else f", {human(nic['rate_Bps'], RATE, 3)}"
        yield f"network   {nic['name']}, {nic['kind']}{rate}"
    yield f"backends  {', '.join(report['backends'])}"
    yield ""
    for problem in report["problems"] or ["no problems found"]:
        yield f"- {problem}"
    if report["plan"]:
        yield ""
        minutes = report["seconds"] / 60
        yield f"dpsim validate node takes about {minutes:.0f} minutes on {report['device']}:"
    for item in report["plan"]:
        yield f"  {item['seconds']:4.0f} s  {item['name']}"
