"""Schedules round by round in a browser: the data to draw, and a self-contained page.

They are drawn by `steps_player.js`, which the dashboard and the page share.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import ascii_lowercase
from typing import Any

from dpsim.base.units import DATA, TIME, human
from dpsim.collectives import Schedule
from dpsim.report.figures.topology_layout import both_directions, layout
from dpsim.report.pages.document import document
from dpsim.studies.walkthrough import Walkthrough, WalkthroughRound
from dpsim.topology import Cluster

MOST_BESIDE = 4  # algorithms that are played side by side
_STYLE = "body { max-width: 1400px; }\n"


def player(part: str) -> str:
    """Return the player's ``js`` or ``css``."""
    return files(__package__).joinpath(f"steps_player.{part}").read_text(encoding="utf-8")


def steps_page(walkthroughs: Sequence[Walkthrough]) -> str:
    """Return a self-contained HTML page with ``walkthroughs`` side by side."""
    title = " and ".join(_title(walkthrough.schedule) for walkthrough in walkthroughs)
    # Names in the data must not end the script element; in JSON the escape is equivalent.
    data = json.dumps([player_data(each) for each in walkthroughs]).replace("<", "\\u003c")
    body = (
        f'<h1>{escape(title)}, round by round</h1><div class="dpsim-steps"></div>\n'
        f"<script>{player('js')}\n"
        f'drawSteps(document.querySelector(".dpsim-steps"), {data});</script>'
    )
    return document(title, body, style=_STYLE + player("css"), figures=False)


def player_data(walkthrough: Walkthrough) -> dict[str, Any]:
    """Return the player's data for one walkthrough.

    ``cells`` are (rank, chunk, letters of the ranks in it, whether it is the rank's final value):
    all of them before the first round, and those that change in each.
    """
    schedule, network = walkthrough.schedule, walkthrough.network
    before: dict[tuple[int, int], tuple[str, bool]] = {}
    rounds = []
    # Each call writes into ``before``, so the rounds must be processed in order.
    begin = _update_cells(_cells(walkthrough, walkthrough.begin), before)
    for number, each in enumerate(walkthrough.rounds, 1):
        cells = _update_cells(_cells(walkthrough, each.held), before)
        rounds.append({"cells": cells, **_round(number, each, walkthrough)})
    return {
        "title": _title(schedule),
        "ranks": schedule.ranks,
        "columns": list(_columns(schedule)),
        "size": human(walkthrough.nbytes, DATA),
        "begin": begin,
        "rounds": rounds,
        "picture": _picture(network) if isinstance(network, Cluster) else None,
    }


def _title(schedule: Schedule) -> str:
    """Return a title such as ``ring all-reduce of 4 ranks``."""
    return f"{schedule.algorithm} {schedule.operation} of {schedule.ranks} ranks"


def _columns(schedule: Schedule) -> Iterable[str]:
    """Yield the number of each chunk; with a vector for each sender, also the sender's letter."""
    for vector in range(schedule.vectors):
        of = ascii_lowercase[vector] if schedule.vectors > 1 else ""
        yield from (f"{of}{chunk}" for chunk in range(schedule.chunks))


def _cells(walkthrough: Walkthrough, held: Any) -> dict[tuple[int, int], tuple[str, bool]]:
    """Return by (rank, chunk) the letters of the ranks summed in it, and whether it is final."""
    # ``held`` has the shape (ranks, chunks, ranks): how often each rank's part is in the sum.
    ranks, chunks, _ = held.shape
    cells = {}
    for rank in range(ranks):
        for chunk in range(chunks):
            # Leave out parts that do not count, such as an all-gather's chunks before they arrive.
            inside = [
                ascii_lowercase[origin] * int(times)
                for origin, times in enumerate(held[rank, chunk])
                if times and walkthrough.counts[origin, chunk]
            ]
            is_wanted = bool((held[rank, chunk] == walkthrough.wanted[rank, chunk]).all())
            cells[rank, chunk] = ("".join(inside), is_wanted)
    return cells


def _update_cells(
    now: dict[tuple[int, int], tuple[str, bool]], before: dict[tuple[int, int], tuple[str, bool]]
) -> list[tuple[int, int, str, bool]]:
    """Return the cells of ``now`` that differ from ``before``, and update ``before``."""
    changed = [(*place, *cell) for place, cell in now.items() if before.get(place) != cell]
    before.update(now)
    return changed


def _round(number: int, each: WalkthroughRound, walkthrough: Walkthrough) -> dict[str, Any]:
    """Return a round's transfers, text, and the bytes on each capacity in use."""
    transfers = each.transfers
    columns = (
        transfers.source,
        transfers.destination,
        transfers.chunk,
        transfers.count,
        transfers.reduce,
    )
    lines = [
        f"round {number} of {len(walkthrough.rounds)}",
        f"{human(each.sent, DATA, 3)} sent so far, {human(each.sent_by_busiest, DATA, 3)} by the "
        "rank that sent most",
    ]
    if each.seconds is not None:
        lines.append(f"{human(each.seconds, TIME, 4)} so far")
    data: dict[str, Any] = {
        "moves": [list(row) for row in zip(*(one.tolist() for one in columns), strict=True)],
        "said": "; ".join(lines),
        "seconds": each.seconds,
    }
    if each.loads is not None:
        data["links"] = {str(link): int(each.loads[link]) for link in each.loads.nonzero()[0]}
    return data


def _picture(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster's devices and links, each link with the capacities of both directions."""
    graph = cluster.graph()
    places = layout(graph, cluster.nodes).places
    lines = [
        {"from": a, "to": b, "numbers": [graph.edges[way]["number"] for way in ways]}
        for a, b, ways in both_directions(graph, places)
    ]
    devices: dict[str, dict[str, Any]] = {}
    for name, (x, y) in places.items():
        devices[name] = {"x": x, "y": y, "kind": graph.nodes[name].get("kind", "switch")}
    for rank in range(cluster.ranks):
        devices[cluster.gpu_name(rank)]["rank"] = rank
    return {"devices": devices, "lines": lines}
