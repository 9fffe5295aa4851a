"""Parse transport and line rate from words such as "InfiniBand NDR 8x400Gbps per node"."""

from __future__ import annotations

import re
from functools import lru_cache

from dpsim.hardware import Gpu
from dpsim.network.libraries.nccl.gpus import capability_of, network_rate
from dpsim.network.libraries.nccl.machine import Note

_IB_BITS = {
    "xdr": 800e9,
    "ndr200": 200e9,
    "ndr": 400e9,
    "hdr100": 100e9,
    "hdr": 200e9,
    "edr": 100e9,
    "fdr": 56e9,
    "qdr": 40e9,
}
_FULL_NODE = 8  # GPUs that share a rate stated for a node
_HOPPER = 90  # ten times its compute capability; machines from Hopper on have a later EFA
_PLAIN_ETHERNET = 10e9  # bit/s of a card with TCP whose rate is not stated
_FASTEST_OLD_CARD = 200e9  # bit/s: rates above this and the GPU's own card are for a whole node
_MEASURED = re.compile(
    r"[\d.]+\s*GB/s\s+(?:plateau|busbw|effective)|\b(?:plateau|effective|reaches|busbw)\b[^();,]*\d[^();,]*",
    re.IGNORECASE,
)
_NUMBERS = {"one": 1, "single": 1, "two": 2, "dual": 2, "four": 4, "quad": 4, "eight": 8}
_NUMBER_WORDS = "|".join(_NUMBERS)
_UNIT = r"GB/s|GBps|[GgTt](?:bps|b/s|bit/s|bit|b[Ee]|b|B)|[Gg](?:ig[Ee]?)?"
# "HDR200" and "NDR400" are HDR and NDR with their rates; NDR200 and HDR100 have half the rate.
_WORD = r"(?i:xdr|ndr200|ndr|hdr100|hdr|edr|fdr|qdr)"
_NUMERIC = rf"(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>{_UNIT})\b"
_SPEED = rf"(?:{_NUMERIC}|(?:\b|(?<=[x×*]))(?P<word>{_WORD})\d*\b)"
# Card names may stand between number and rate: "4x Slingshot-11 NICs (200 Gb/s each)".
_NAMES = r"(?:[A-Za-z]+(?:-[A-Za-z]+)*[-\d]*[\s(@]+)*"
_COUNT = rf"(?<![-\w.])(?P<count>\d+(?=\s*[x×*])|(?i:{_NUMBER_WORDS}))"
_COUNTED = re.compile(rf"{_COUNT}(?:\s*[x×*]|[\s-])\s*{_NAMES}{_SPEED}")
# "200G x8", but not the lanes of "200G (PCIe 4.0 x16)".
_COUNTED_AFTER = re.compile(
    rf"{_SPEED}(?:(?!(?i:pci))[\w\s)-]){{0,24}}?[x×*]\s*(?P<count>\d+)\b(?!\s*(?i:pci|lanes))"
)
_RATE = re.compile(_NUMERIC)
_NAMED = re.compile(rf"\b(?P<word>{_WORD})\d*\b")
_CARDS = re.compile(
    rf"(?<![-\w.])(\d+|{_NUMBER_WORDS})[\s-]+(?:[a-z]+\s+)?"
    r"(?:nic|hca|adapter|card|rail|port|interface)s?\b"
)
# In order of precedence: sockets over Slingshot cards are sockets.
_TRANSPORTS = (
    (r"tcpxo|fastrak", "tcpxo"),
    (r"tcpx", "tcpx"),
    (r"\bsockets?\b|ipoib|nccl_net=socket", "tcp"),
    (r"ib_disable=1|\b(?:no|without) (?:rdma|ib|infiniband)\b", "tcp"),
    (r"\b(?:rdma|ib|infiniband) (?:is )?(?:disabled|off|not used)\b", "tcp"),
    (r"(?:\befa|elastic fabric\w*)[\s-]*(?:v|gen)\s*[2-9]\b", "efa-v2"),
    (r"(?:\befa|elastic fabric\w*)[\s-]*[2-9]\b(?![\s\d]*[x×]|\d)", "efa-v2"),
    # Nodes of 3,200 Gbit/s, and cards of 200, came with the second generation.
    (r"(?=.*(?:\befa|elastic fabric))(?=.*(?:\b32\s*[x×]\s*100|3200|\b200\s*g))", "efa-v2"),
    (r"(?=.*(?:\befa|elastic fabric))(?=.*\b(?:p5|p6|g7|trn2))", "efa-v2"),
    (r"\befa|elastic fabric", "efa-v1"),
    (r"slingshot|cassini|\bcxi\b", "slingshot"),
    (r"\broce|rdma over converged|spectrum-?x\b|\berdma\b|\bthor\d?\b|pollara", "roce"),
    # Cards that support both: over Ethernet it is RoCE.
    (r"(?=.*(?:connectx|\bcx-?\d|bluefield|\bbf-?\d|\brdma\b))(?=.*(?:gbe\b|ethernet))", "roce"),
    # Omni-Path cards are accessed through InfiniBand verbs.
    (r"\bomni-?\s?path|\bopa\b", "ib"),
    (r"infiniband|\bib\b|connectx|(?:\b|\dx)[xnhefq]dr\d*\b|quantum", "ib"),
    (r"\bcx-?\d|bluefield|\bbf-?\d|\bmlx\d|\brdma\b", "ib"),
    (r"tcp|socket|ethernet|gbe\b|gige|\bgvnic\b|\bena\b", "tcp"),
)
# Bit/s per GPU if only the network is named: a3-highgpu-8g has 4 cards of 200 Gbit/s for 8 GPUs,
# a3-megagpu-8g 8 (Google Cloud, Networking and GPU machines), p4d.24xlarge 4 of 100 (AWS, EC2
# accelerated computing), nodes with Slingshot-11 a card of 200 for each GPU (CSCS, Alps).
_USUAL_BITS = {"tcpx": 100e9, "tcpxo": 200e9, "efa-v1": 50e9, "slingshot": 200e9}
_FIRST_EFA = re.compile(r"\bv1\b|\befav1|gen\s*1\b|\b(?:p3dn|p4d)")
_RDMA = frozenset({"ib", "roce"})

# The card cannot reach the GPU's memory, so each byte goes through the host's memory.
_STAGED = re.compile(
    r"host[ -]?staged|no gpudirect|without gpudirect|via (?:the )?host|gdr_level=(?:loc|pxb|0)"
    r"|\b(?:no|without) gdr\b|\b(?:gdr|gpudirect(?: rdma)?) (?:is )?(?:disabled|off|not used)"
)
_DOMAIN = re.compile(
    r"(\d+)\s*gpus\s+(?:per|a|in one|to a)\s+(?:nvlink\s+)?domain"
    r"|\bnvl[ -]?(\d+)(?:x(\d))?\b|\bnvlink[ -]?(72)\b"
)


def nvlink_domain(text: str) -> int | None:
    """Return the GPUs of one NVLink domain over several nodes; None if none is named."""
    found = _DOMAIN.search(text.lower())
    if not found:
        return None
    stated, name, times, of_rack = found.groups()
    return int(stated or name or of_rack) * int(times or 1)


def staged_through_the_host(text: str) -> bool:
    """Return whether ``text`` says that network cards reach GPUs only through the host's memory."""
    return bool(_STAGED.search(text.lower()))


@lru_cache(maxsize=256)
def transport_of(text: str) -> str | None:
    """Return the kind of network that ``text`` names, or None."""
    return next((name for pattern, name in _TRANSPORTS if re.search(pattern, text.lower())), None)


def parse_transport(
    text: str, gpu: Gpu | None = None, settings: str = ""
) -> tuple[str, list[Note]]:
    """Return the kind of network, and notes on assumptions.

    TCP if only a speed is given; "unknown" (timed as InfiniBand) if nothing is known. EFA with a
    ``gpu`` younger than its first generation is a later one. ``settings`` are NCCL's settings, such
    as NCCL_IB_DISABLE=1.
    """
    named, lowered = transport_of(text), settings.lower()
    if "nccl_net=socket" in lowered or (named in _RDMA and "ib_disable=1" in lowered):
        return "tcp", []
    is_young = gpu is not None and capability_of(gpu) >= _HOPPER
    if named == "efa-v1" and is_young and not _FIRST_EFA.search(text.lower()):
        return "efa-v2", [Note("inter_link", text, "a later EFA, as beside such GPUs")]
    if named is not None:
        return named, []
    rate = _RATE.search(_MEASURED.sub(" ", text))
    if rate and _bits(rate) <= _FASTEST_OLD_CARD:
        return "tcp", [Note("inter_link", text, "TCP: only a speed is given")]
    return "unknown", [Note("inter_link", text, "InfiniBand: the transport is not recognised")]


def parse_nics(text: str, gpu: Gpu, local: int) -> tuple[float, list[Note]]:
    """Return the one-way line rate (B/s) of a node's network cards that ``local`` GPUs can use.

    An assumed number of cards is noted.
    """
    count, bits, is_stated = _cards(_MEASURED.sub(" ", text), gpu, local)
    rate = count * bits / 8
    if is_stated:
        return rate, []
    taken_as = f"{count} x {bits / 1e9:g} Gbit/s a node: the number of cards is not stated"
    return rate, [Note("inter_link", text, taken_as)]


def node_cards(text: str, gpu: Gpu, local: int) -> tuple[str, int, float]:
    """Return the named network, the number of cards of ``local`` GPUs, and a card's bit/s.

    The network is "unknown" if none is named; number and rate are then the usual ones for the GPU.
    """
    count, bits, _ = _cards(_MEASURED.sub(" ", text), gpu, local)
    return parse_transport(text, gpu)[0], count, bits


def _cards(text: str, gpu: Gpu, local: int) -> tuple[int, float, bool]:
    """Return the cards that ``local`` GPUs use, bit/s of each, and whether the number is stated."""
    found = re.search(r"\bper (gpu|node)\b", text.lower())
    of = found.group(1) if found else ""
    each = local if of == "gpu" else 1
    counted = _COUNTED.search(text) or _COUNTED_AFTER.search(text)
    if counted:
        return usable_nics(_number(counted["count"]) * each, local), _bits(counted), True

    rate, word = _RATE.search(text), _NAMED.search(text)
    speed = word or rate
    usual, bits = _usual_cards(text, gpu, local)
    if speed:
        usual, bits = local, _bits(speed)
    number = _CARDS.search(text.lower())
    if number:
        return usable_nics(_number(number.group(1)) * each, local), bits, True
    if speed and of == "gpu":
        return local, bits, True
    if rate and (of or not word):
        return _cards_from_rate(text, _bits(rate), of, gpu, local)
    return usual, bits, False


def _cards_from_rate(
    text: str, bits: float, of: str, gpu: Gpu, local: int
) -> tuple[int, float, bool]:
    """Return `_cards` for a rate without a number of cards: "RoCE 400GbE", "EFA 3200Gbps"."""
    beside_a_gpu = 8 * network_rate(gpu)
    if bits > max(beside_a_gpu, _FASTEST_OLD_CARD):
        # No card is this fast: it is a whole node's rate, of which the job's GPUs have a share.
        return 1, bits * min(local / _FULL_NODE, 1.0), bool(of)
    if not of and bits == beside_a_gpu and transport_of(text) in _RDMA:
        return local, bits, False
    return 1, bits, bool(of)


def _usual_cards(text: str, gpu: Gpu, local: int) -> tuple[int, float]:
    """Return the usual cards of ``local`` GPUs on a named network, and the bit/s of each."""
    named = parse_transport(text, gpu)[0]
    if named == "tcp":
        return 1, _PLAIN_ETHERNET
    return local, _USUAL_BITS.get(named, 8 * network_rate(gpu))


def _number(word: str) -> int:
    return _NUMBERS.get(word.lower()) or int(word)


def _bits(found: re.Match[str]) -> float:
    """Return the nominal bit/s of a card, by its rate or by the word for it.

    "GB/s" and "GBps" are bytes, everything else is bits.
    """
    parts = found.groupdict()
    if parts.get("word"):
        return _IB_BITS[parts["word"].lower()]
    unit = parts["unit"]
    scale = 1e12 if unit[0] in "Tt" else 1e9
    return float(parts["value"]) * scale * (8 if unit in ("GB/s", "GBps") else 1)


def usable_nics(count: int, local: int) -> int:
    """Return how many cards ``local`` GPUs use: one each of up to 8 cards, else their share."""
    return min(count, local) if count <= 8 else min(count, max(local * count // 8, 1))
