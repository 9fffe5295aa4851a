"""Measures items in order of usefulness within a time limit, and continues where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from dpsim.base.errors import DpsimError, FailedError
from dpsim.base.terminal import narrate
from validate.node.disturbed import Watchman
from validate.node.items import Item, Order
from validate.node.rows import Rows
from validate.ranks.orders import Orders, Program
from validate.ranks.processes import IMPORTED_LATE
from validate.ranks.program import program

PROGRAM = program("validate.node.items")
"""The program of each rank; the order, as JSON, follows."""
_START_S = 120.0  # until ranks have met, at most
_LEAST_S = 60.0  # that any item may take
_TIMEOUT_FACTOR = 4.0  # times the expected seconds of an item
_WORTH_A_START_S = 10.0  # with less left, no ranks are started

Progress = Callable[[str, int, int], None]
"""Called as each item begins, with its name, how many were before it, and how many there are."""


class _Cut(Exception):  # noqa: N818 - it is no error
    """The current item is to end here."""


def carry(
    items: Sequence[Item],
    rows: Rows,
    orders: Orders,
    *,
    device: str,
    minutes: float,
    progress: Progress = lambda what, done, total: None,
) -> list[Item]:
    """Measure the items that ``rows`` lacks, and return those left over.

    Items for more ranks than a launcher has started are left out. The first ones are most useful;
    those cut off or failed in an earlier call come last. A rank that fails, or an item that takes
    far longer than expected, ends that item on all ranks, and the next one follows.
    """
    end = time.monotonic() + 60 * minutes
    items = _possible(items, orders.most)
    rows.refresh()
    rows.settle()
    waiting = [item for item in items if not _best_end(item, rows)]
    waiting += [item for item in items if _best_end(item, rows) in ("failed", "cut")]
    watchman = Watchman(device)
    before = len(items) - len(waiting) - len(rows.attempts)
    shown: set[str] = set()

    def look() -> None:
        watchman.look(rows)
        current = rows.current
        if current is not None and current.name not in shown:
            shown.add(current.name)
            progress(current.name, before + len(rows.attempts) - 1, len(items))

    while group := _next(waiting, end - time.monotonic()):
        tried = _Group(group, rows, device, end, look).measure(orders)
        waiting = [item for item in waiting if item.name not in tried]
    return [item for item in items if _best_end(item, rows) != "done"]


def _possible(items: Sequence[Item], most: int | None) -> list[Item]:
    """Return the items for at most so many ranks, and say which ones are left out."""
    possible = [item for item in items if most is None or item.ranks <= most]
    if names := [item.name for item in items if item not in possible]:
        narrate(f"not by the {most} ranks of the launcher, which are too few: {'; '.join(names)}")
    return possible


def _best_end(item: Item, rows: Rows) -> str:
    """Return how the item's best attempt ended, "" if it was interrupted or there is none."""
    attempt = rows.best(item.name, item.identity)
    return "" if attempt is None else attempt.ended


def _next(waiting: Sequence[Item], left_s: float) -> list[Item]:
    """Return the next ranks' items: the first ones that the same ranks can measure."""
    fitting = [item for item in waiting if item.seconds / 2 <= left_s]
    if left_s < _WORTH_A_START_S or not fitting:
        return []
    first = fitting[0].ranks, fitting[0].backend
    return [*takewhile(lambda item: (item.ranks, item.backend) == first, fitting)]


@dataclass(frozen=True, slots=True)
class _Group:
    """Items that the same ranks measure, one after another."""

    items: Sequence[Item]
    rows: Rows
    device: str
    end: float
    look: Callable[[], None]

    def measure(self, orders: Orders) -> set[str]:
        """Measure the items, and return the names of those that were begun, however they ended."""
        before = len(self.rows.attempts)
        started = time.monotonic()
        order = Order(
            rows=str(self.rows.path.resolve()),
            device=self.device,
            until=self.end,
            items=tuple(self.items),
        )
        measuring = Program((*PROGRAM, order.model_dump_json()), ("validate.node", IMPORTED_LATE))
        try:
            orders.carry_out(measuring, self.items[0].ranks, lambda: self._look(started))
        except _Cut as cut:
            self._record_end("cut", str(cut), before)
        except DpsimError as error:
            self._record_end("failed", str(error), before)
        self.rows.refresh()
        self.rows.settle()
        return {attempt.name for attempt in self.rows.attempts[before:]}

    def _look(self, started: float) -> None:
        """Raise if the current item has taken too long."""
        self.rows.refresh()
        self.look()
        now, current = time.monotonic(), self.rows.current
        if now > self.end:
            raise _Cut("the time was used up")
        if current is None:
            # Before the first item; the pause between two items is short.
            if self.rows.met < started and now - started > _START_S:
                raise FailedError(f"ranks had not met after {_START_S:g} s")
            return
        seconds = next(item.seconds for item in self.items if item.name == current.name)
        # Twice as long after each time that it was cut off: slow machines need more than expected.
        limit = max(_TIMEOUT_FACTOR * seconds, _LEAST_S) * 2 ** self.rows.cut_off(current)
        if self.rows.current_s > limit:
            raise _Cut(f"it had not ended after {limit:.0f} s")

    def _record_end(self, how: str, why: str, before: int) -> None:
        """Record how the current item ended or, if there was none, that ranks did not start."""
        self.rows.refresh()
        current = self.rows.current
        names = [] if current is None else [current.name]
        if current is None and how == "failed" and len(self.rows.attempts) == before:
            for item in self.items:
                self.rows.write({"begin": item.name, "item": item.identity})
                self.rows.write({"end": item.name, how: why})
            names = [f"{len(self.items)} measurements by {self.items[0].ranks} ranks"]
        elif current is not None:
            self.rows.write({"end": current.name, how: why})
        for name in names:
            narrate(f"{name}: {why}")
