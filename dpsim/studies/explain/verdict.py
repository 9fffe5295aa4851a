"""Summarise in one sentence what limits a step: computing, waiting or the network."""

from __future__ import annotations

from collections.abc import Mapping

from dpsim.base.units import DATA, human
from dpsim.engine import PartName, Result
from dpsim.hardware import device_kind

_FULL_UTILISATION = 0.8  # utilisation of a link that limits the step
_COMPUTE_BOUND = 0.8  # share of computing above which little else matters
_NOTABLE_SHARE, _SMALL_SHARE = 0.1, 0.05  # of the step: shares that are mentioned

_DEVICES = {
    "gpu": "GPUs",
    "nvswitch": "NVSwitches",
    "cpu": "processors",
    "pcie-switch": "PCIe switches",
    "nic": "network cards",
}


def verdict(result: Result) -> str:
    """Return what limits the steps of ``result``.

    First insufficient memory, then input, then a link or computing that is busy for at least 80 %
    of the step; otherwise the largest part other than computing.
    """
    memory = result.memory
    if memory is not None and not memory.fits:
        held, has = (human(size, DATA, 3) for size in (memory.held.total, memory.capacity))
        return f"It does not fit: each {memory.gpu} has {has} and would hold {held}."
    step = result.step_time_s["mean"]
    shares = {part: seconds / step for part, seconds in result.parts_s.items()}
    if result.input_bound and result.pipeline is not None:
        stage = result.pipeline.slowest_stage()
        return f"{shares['input']:.0%} of the step waits for input: {stage} is what is slow."
    if result.traffic.busiest_link_utilisation >= _FULL_UTILISATION:
        return _full_link(result, shares["compute"], shares["exposed_comm"])
    if shares["compute"] >= _COMPUTE_BOUND:
        return _computing(result, shares)
    return _largest(result, shares)


def link_words(name: str) -> str:
    """Return a link in words: a network card for ``node0/nic0->switch``."""
    kinds = [device_kind(end) for end in name.split("->")]
    if "nic" in kinds:
        return "the busiest network card"
    if all(kind in _DEVICES for kind in kinds) and len(kinds) > 1:
        within = [_DEVICES[kind] for kind in dict.fromkeys(kinds)]
        return f"the links between {' and '.join(within)} within nodes"
    if any(kind in _DEVICES for kind in kinds):
        return f"the {_DEVICES[next(kind for kind in kinds if kind in _DEVICES)]} within nodes"
    return f"the links between switches ({name})"


def _full_link(result: Result, computing: float, exposed: float) -> str:
    traffic = result.traffic
    words = link_words(traffic.busiest_link or "")
    busy = f"{_capital(words)} {_verb(words)} busy {traffic.busiest_link_utilisation:.0%} of the"
    # A full link does not slow the step if its traffic overlaps with computing.
    if exposed < _SMALL_SHARE:
        hidden = f"hidden behind {computing:.0%} computing"
        return f"{busy} step, {hidden}: faster GPUs alone gain little."
    return f"{busy} step: the network holds it back."


def _computing(result: Result, shares: Mapping[PartName, float]) -> str:
    """Describe a step that mostly computes."""
    text = f"{shares['compute']:.0%} computing"
    if result.traffic.busiest_link is None:
        return f"{text}: nothing is sent that could slow it."
    if shares["exposed_comm"] >= _NOTABLE_SHARE:
        return f"{text}, {shares['exposed_comm']:.0%} exposed communication."
    waits = shares["straggler_wait"]
    late = f"; {waits:.0%} waits for slower workers" if waits >= _SMALL_SHARE else ""
    return f"{text}: the network is not your problem{late}."


def _largest(result: Result, shares: Mapping[PartName, float]) -> str:
    """Describe the largest part other than computing, and its cause."""
    others = {part: share for part, share in shares.items() if part != "compute"}
    part = max(others, key=lambda each: others[each])
    share = f"{others[part]:.0%}"
    if part != "exposed_comm":
        return _OTHER_PARTS[part].format(share=share, computing=f"{shares['compute']:.0%}")
    traffic = result.traffic
    if traffic.busiest_link is None:
        return f"{share} of the step is exposed communication."
    words = link_words(traffic.busiest_link)
    busy = f"{words} {_verb(words)} busy {traffic.busiest_link_utilisation:.0%} of the step"
    return f"{share} of the step is exposed communication; {busy}."


_OTHER_PARTS = {
    "input": "{share} of the step waits for input.",
    "encode": "{share} of the step encodes and decodes gradients, {computing} computes.",
    "straggler_wait": "{share} of the step waits for slower workers, {computing} computes.",
    "other": "{share} of the step is neither computing, sending nor waiting.",
}


def _verb(words: str) -> str:
    return "is" if words.endswith("card") else "are"


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
