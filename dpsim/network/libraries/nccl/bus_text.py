"""Parse how copies cross PCIe, from words such as "PCIe 4.0 x16 direct, 2 sockets, no P2P".

The words state which uplinks a ring crosses, and whether copies go from peer to peer or through the
host, by a kernel or the copy engine.
"""

from __future__ import annotations

import math
import re

from dpsim.hardware import Gpu
from dpsim.network.libraries.nccl.machine import Bus, Note

_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "eight": 8}
# Excludes the generation of PCIe: "PCIe 4.0 switch", "Gen 5 switch".
_NUMBER = r"(?<![\d.])(?<!pcie )(?<!gen )([1-9]\d*|one|two|three|four|eight)"
_UPLINKS = re.compile(rf"\b{_NUMBER}\s+(?:shared\s+)?uplinks?\b")
_SWITCHES = re.compile(rf"\b{_NUMBER}\s+(?:[a-z]+\s+)?switch(?:es)?(?:\s+of\s+(\d+))?\b")
# With ACS redirection a switch still sends copies between its GPUs up to the root complex.
_REDIRECTED = re.compile(r"acs redirect")
_NO_PEER = r"(?:disabled|off|unavailable|blocked|not (?:available|supported|possible|enabled))"
_STAGED = re.compile(
    r"\bhost(?! bridge)|\bshm\b|shm_use|(?:no|without) (?:p2p|peer)|staged|p2p_disable=1"
    rf"|\bp2p(?: access)?(?: is)?[:=]?\s*(?:{_NO_PEER}|no\b|0\b)"
)
_PEER = re.compile(r"p2p_disable=0|p2p_level|\bp2p\b(?!\s+(?:use\s+)?(?:unclear|not stated))")
_SOCKETS = re.compile(
    r"\b(?:2|two|dual)[ -](?:sockets?|numa|root)|(?<!=)\bsys\b|numa nodes"
    r"|\b(?:across|cross)[ -](?:socket|numa)"
)
# NVLink bridges join pairs of cards, and PCIe joins the pairs.
_PAIRS = re.compile(r"\bnv[^,;]*\b(?:pairs?|bridge[sd]?)\b|\b(?:pairs?|bridged)\b[^,;]*\bnv")
_COPY_ENGINE = re.compile(r"shm_use_cuda_memcpy=1|copy[ -]engine")
# By default a pair is under one root. With more GPUs some pairs communicate through the host
# bridge, where NCCL does not use peer-to-peer by default.
_UNDER_ONE_ROOT = 2


def parse_bus(text: str, settings: str, gpu: Gpu, local: int) -> tuple[Bus, list[Note]]:
    """Return how copies cross PCIe, by the column ``intra_link`` and the settings (``algo_proto``).

    An assumption is noted. The texts take precedence over the driver's support for the GPU.
    """
    lower = f"{text} {settings}".lower()
    staged, notes = _staged(text, lower, gpu, local)
    bus = Bus(
        staged,
        _per_uplink(lower, gpu, local) if staged else 1.0,
        copy_engine=staged and bool(_COPY_ENGINE.search(lower)),
        sockets=not staged and bool(_SOCKETS.search(lower)),
        one_way=bool(_PAIRS.search(lower)),
    )
    return bus, notes


def _staged(text: str, lower: str, gpu: Gpu, local: int) -> tuple[bool, list[Note]]:
    if _REDIRECTED.search(lower) or _STAGED.search(lower):
        return True, []
    if _PEER.search(lower):
        return False, []
    if not gpu.peer_access:
        return True, []
    if _PAIRS.search(lower):
        return False, []
    if "switch" in lower and not _SOCKETS.search(lower):
        return False, []
    staged = local > _UNDER_ONE_ROOT
    path = "staged through the host" if staged else "peer to peer"
    return staged, [Note("intra_link", text, f"{path}: not stated of {local} GPUs")]


def _per_uplink(lower: str, gpu: Gpu, local: int) -> float:
    """Return how many GPUs share a link to the host: those of a switch or multi-die board, or 1."""
    uplinks = _UPLINKS.search(lower)
    if uplinks:
        return local / min(_count(uplinks.group(1)), local)
    switches = _SWITCHES.search(lower)
    if switches:
        behind = switches.group(2)
        return int(behind) if behind else math.ceil(local / _count(switches.group(1)))
    if "switch" in lower or "(pix)" in lower:
        return local
    return min(gpu.dies, local)


def _count(word: str) -> int:
    return _NUMBERS.get(word) or int(word)
