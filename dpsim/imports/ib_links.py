"""Parse the output of ``ibnetdiscover``: devices of an InfiniBand fabric, and its links.

A line ``Switch 36 "S-guid" # "description"`` (``Ca``, ``Rt``) begins a device, and each line
``[port] "H-guid"[port] # ... 4xHDR`` after it is a link, which is listed at both ends. Source of
the format: the manual page ibnetdiscover(8) of rdma-core.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpsim.imports.reading import ImportFileError, text_lines

# Gbit/s of data per lane, without encoding: 8 of 10 bits up to QDR, 64 of 66 from FDR10 on
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

Port = tuple[str, int]  # a device's GUID with its S-, H- or R-, and a port number


@dataclass(frozen=True, slots=True)
class IbLink:
    """A link between two ports: its number of lanes, and InfiniBand's name of their speed."""

    ends: tuple[Port, Port]
    lanes: int
    speed: str

    @property
    def gbits(self) -> float:
        """The data rate in each direction, in Gbit/s."""
        return self.lanes * LANE_GBITS[self.speed]


@dataclass(frozen=True, slots=True)
class IbFabric:
    """The links of a fabric, each once, and the devices' descriptions."""

    links: tuple[IbLink, ...]
    descriptions: dict[str, str]


def parse_ibnetdiscover(content: bytes) -> IbFabric:
    """Return the fabric in an output of ibnetdiscover.

    Raises ImportFileError, with the line, for a link without its ends or its speed.
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
    """Return the link on a line, and the description of its other end."""
    found = _LINK.match(text)
    if device is None or found is None:
        raise ImportFileError(
            f'must be a link of a device: [port] "S-guid"[port] # ... 4xHDR, but got {text[:60]!r}',
            number,
        )
    ends = ((device, int(found[1])), (found[2].lower(), int(found[3])))
    if ends[0] == ends[1]:
        raise ImportFileError("must join two ports, but both are the same one", number)
    # A description may contain anything, even a speed.
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
    """Return the first text in quotes, or an empty one."""
    found = _QUOTED.search(text)
    return found[1].strip() if found else ""
