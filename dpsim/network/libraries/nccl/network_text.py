"""What joins nodes, from words such as "InfiniBand NDR 8x400Gbps per node".

The transport, and the line rate of a node's cards.
"""

from __future__ import annotations

import re

from dpsim.hardware import Gpu
from dpsim.network.libraries.nccl.gpus import network_rate
from dpsim.network.libraries.nccl.notes import Note

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
_FULL_NODE = 8  # GPUs that share what is stated for a node
_PLAIN_ETHERNET = 10e9  # bit/s of a card with TCP whose rate is not stated
_MEASURED = re.compile(
    r"[\d.]+\s*GB/s\s+(?:plateau|busbw|effective)|\b(?:plateau|effective|reaches|busbw)\b[^();,]*\d[^();,]*",
    re.IGNORECASE,
)
_UNIT = r"(GB/s|GBps|[Gg]bps|[Gg]b/s|[Gg]bit/s|[Gg]bit|[Gg]b[Ee]|[Gg]ig[Ee]?|[Gg]b|GB|[Gg])\b"
_COUNTED = re.compile(r"(\d+)\s*[x×*]\s*(?:[A-Za-z]+-?\d*\s+)*(\d+(?:\.\d+)?)\s*" + _UNIT)
_COUNTED_WORD = re.compile(
    r"(\d+)\s*[x×*]\s*(?:[A-Za-z]+-?\d*\s+)*(xdr|ndr200|ndr|hdr100|hdr|edr|fdr|qdr)(?:400)?\b",
    re.IGNORECASE,
)
_CARDS = re.compile(
    r"\b(\d|one|single|two|four|eight)\s+(?:NIC|HCA|adapter|card|rail)s?\b", re.IGNORECASE
)
_NUMBERS = {"one": 1, "single": 1, "two": 2, "four": 4, "eight": 8}
_SINGLE = re.compile(r"(\d+(?:\.\d+)?)\s*" + _UNIT)
# In the order in which words decide: sockets over the cards of a Slingshot are sockets.
_TRANSPORTS = (
    (r"tcpxo|fastrak", "tcpxo"),
    (r"tcpx", "tcpx"),
    (r"\bsockets?\b|ipoib", "tcp"),
    (r"(?:\befa|elastic fabric\w*)[\s-]*(?:v|gen)?\s*[2-9]\b(?![\s\d]*[x×]|\d)", "efa-v2"),
    # Nodes of 3,200 Gbit/s, and cards of 200, came with the second generation.
    (r"(?=.*(?:\befa|elastic fabric))(?=.*(?:\b32\s*[x×]\s*100|3200|\b200\s*g))", "efa-v2"),
    (r"\befa|elastic fabric", "efa-v1"),
    (r"slingshot", "slingshot"),
    (r"roce|rdma over converged", "roce"),
    (r"infiniband|\bib\b|connectx|(?:\b|\dx)[xnhefq]dr\d*\b|quantum", "ib"),
    (r"tcp|socket|ethernet|gbe\b|gige", "tcp"),
)


# The card cannot reach the GPU's memory, so that each byte crosses the host's.
_STAGED = re.compile(
    r"host[ -]?staged|no gpudirect|without gpudirect|via (?:the )?host|gdr_level=(?:loc|pxb)"
)
_DOMAIN = re.compile(
    r"(\d+)\s*gpus\s+(?:per|a|in one|to a)\s+(?:nvlink\s+)?domain|\bnvl[ -]?(\d+)\b"
)


def nvlink_domain(text: str) -> int | None:
    """GPUs that one NVLink domain over several nodes joins, by such words; None without any."""
    found = _DOMAIN.search(text.lower())
    return int(found.group(1) or found.group(2)) if found else None


def staged_through_the_host(text: str) -> bool:
    """Whether ``text`` says that network cards reach GPUs only through the host's memory."""
    return bool(_STAGED.search(text.lower()))


def transport_of(text: str) -> str | None:
    """The kind of network that ``text`` names, or None."""
    return next((name for pattern, name in _TRANSPORTS if re.search(pattern, text.lower())), None)


def parse_transport(text: str) -> tuple[str, list[Note]]:
    """The kind of network, and notes on what had to be assumed.

    TCP where only a speed is given; "unknown" (priced as InfiniBand) where nothing is known.
    """
    named = transport_of(text)
    if named is not None:
        return named, []
    if re.search(r"\d+\s*gb?\s*-?class|\d+\s*gbps", text.lower()):
        return "tcp", [Note("inter_link", text, "TCP: only a speed is given")]
    return "unknown", [Note("inter_link", text, "InfiniBand: the transport is not recognised")]


def parse_nics(text: str, gpu: Gpu, local: int) -> tuple[float, list[Note]]:
    """Line rate (B/s, one way) of the network cards of a node that ``local`` GPUs can use.

    An assumed number of cards is noted.
    """
    cleaned = _MEASURED.sub(" ", text)
    of = re.search(r"\bper (gpu|node)\b", cleaned.lower())
    each = local if of and of.group(1) == "gpu" else 1
    counted = _COUNTED.search(cleaned)
    if counted:
        bits = _bits(counted.group(2), counted.group(3))
        return usable_nics(int(counted.group(1)) * each, local) * bits / 8, []
    named = _COUNTED_WORD.search(cleaned)
    if named:
        return usable_nics(int(named.group(1)), local) * _IB_BITS[named.group(2).lower()] / 8, []
    word = next((w for w in _IB_BITS if re.search(rf"\b{w}\b", cleaned.lower())), None)
    single = _SINGLE.search(cleaned)
    if single and not word and of:
        # The rate of each GPU's, or the whole node's, of which a job's GPUs have their share.
        share = local if of.group(1) == "gpu" else min(local / _FULL_NODE, 1.0)
        return share * _bits(single.group(1), single.group(2)) / 8, []
    bits = (
        _IB_BITS[word]
        if word
        else _bits(single.group(1), single.group(2))
        if single
        else 8 * network_rate(gpu)
    )
    cards = _CARDS.search(cleaned)
    if cards:
        number = cards.group(1).lower()
        return usable_nics(_NUMBERS.get(number) or int(number), local) * bits / 8, []
    if not word and not single and transport_of(text) == "tcp":
        bits, local = _PLAIN_ETHERNET, 1
    count = 1 if (single and not word) or local == 1 else local
    return count * bits / 8, [
        Note(
            "inter_link",
            text,
            f"{count} x {bits / 1e9:g} Gbit/s a node: the number of cards is not stated",
        )
    ]


def _bits(number: str, unit: str) -> float:
    """Bits per second of a network card as it is sold.

    "GB/s" and "GBps" are bytes, everything else is bits.
    """
    return float(number) * 1e9 * (8 if unit in ("GB/s", "GBps") else 1)


def usable_nics(count: int, local: int) -> int:
    """Cards in use by ``local`` GPUs: of up to 8 cards one a GPU, of more its share each."""
    return min(count, local) if count <= 8 else min(count, max(local * count // 8, 1))
