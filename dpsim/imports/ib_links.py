"""Reads what ``ibnetdiscover`` prints: switches and cards of an InfiniBand fabric, and its links.

A line ``Switch 36 "S-guid" # "description"`` (``Ca``, ``Rt``) begins a device, and each line
``[port] "H-guid"[port] # ... 4xHDR`` after it is a link, which both its ends list. Source of the
format: the manual page ibnetdiscover(8) of rdma-core.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpsim.imports.reading import ImportFileError, text_lines

# Gbit/s of data a lane, encoding taken off: 8 of 10 bits up to QDR, 64 of 66 from FDR10 on
# (InfiniBand Trade Association).
LANE_GBITS = {
    "SDR": 2.0, "DDR": 4.0, "QDR": 8.0, "FDR10": 10.0, "FDR": 13.64, "EDR": 25.0, "HDR": 50.0,
    "NDR": 100.0, "XDR": 200.0,
}  # fmt: skip
_MOST_LINKS = 2**17
_DEVICE = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([SHR]-[0-9a-fA-F]{1,16})"[^#]*(?:#\s*(.*))?')
_LINK = re.compile(
    r'\[(\d{1,5})\](?:\s*\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s+"([SHR]-[0-9a-fA-F]{1,16})"'
    r"\[(\d{1,5})\](?:\s*\[ext \d+\])?(?:\([0-9a-fA-F]+\))?[^#]*#\s*(.*)"
)
_QUOTED = re.compile(r'"([^"]*)"')
_SPEED = re.compile(r"\b(1|2|4|8|12)x(\w+)")

Port = tuple[str, int]  # a device's GUID with its S-, H- or R-, and the number of a port


@dataclass(frozen=True, slots=True)
class IbLink:
    """A link between two ports: its lanes, and their speed as InfiniBand calls it."""

    ends: tuple[Port, Port]
    lanes: int
    speed: str

    @property
    def gbits(self) -> float:
        """Gbit/s of data in each direction."""
        return self.lanes * LANE_GBITS[self.speed]


@dataclass(frozen=True, slots=True)
class IbFabric:
    """The links of a fabric, each once, and what devices say of themselves."""

    links: tuple[IbLink, ...]
    descriptions: dict[str, str]


def parse_ibnetdiscover(content: bytes) -> IbFabric:
    """The fabric in an output of ibnetdiscover.

    Raises ImportFileError, with the line, for a link that does not say its ends or its speed.
    """
    links: dict[frozenset[Port], IbLink] = {}
    descriptions: dict[str, str] = {}
    device: str | None = None
    for number, line in enumerate(text_lines(content), 1):
        text = line.strip()
        if found := _DEVICE.match(text):
            device = found[2].lower()
            descriptions[device] = _quoted(found[3] or "")
        elif text.startswith("["):
            link, said = _link(text, device, number)
            # Both of its devices list it.
            links.setdefault(frozenset(link.ends), link)
            descriptions.setdefault(link.ends[1][0], said)
        elif text.startswith(("Switch", "Ca\t", "Ca ", "Rt")):
            raise ImportFileError(
                f"must have a device's GUID in quotes, but got {text[:60]!r}", number
            )
        if len(links) > _MOST_LINKS:
            raise ImportFileError(f"must have at most {_MOST_LINKS:,} links", number)
    if not links:
        raise ImportFileError(
            "must be what ibnetdiscover prints, but has no lines of links such as "
            "'[1] \"S-guid\"[2]' after one of Switch or Ca"
        )
    return IbFabric(tuple(links.values()), descriptions)


def _link(text: str, device: str | None, number: int) -> tuple[IbLink, str]:
    """The link that a line states, and what its other end is called there."""
    found = _LINK.match(text)
    if device is None or found is None:
        raise ImportFileError(
            f'must be a link of a device: [port] "S-guid"[port] # ... 4xHDR, but got {text[:60]!r}',
            number,
        )
    ends = ((device, int(found[1])), (found[2].lower(), int(found[3])))
    if ends[0] == ends[1]:
        raise ImportFileError("must join two ports, but both are the same one", number)
    # A description may hold anything, a speed among it.
    speeds = _SPEED.findall(_QUOTED.sub("", found[4]))
    lanes, speed = speeds[-1] if speeds else ("", "")
    if speed not in LANE_GBITS:
        raise ImportFileError(
            f"must end with width and speed such as 4xHDR ({', '.join(LANE_GBITS)}), but got "
            f"{found[4][-40:]!r}",
            number,
        )
    return IbLink(ends, int(lanes), speed), _quoted(found[4])


def _quoted(text: str) -> str:
    """The first text in quotes, or none."""
    found = _QUOTED.search(text)
    return found[1].strip() if found else ""
