"""Ranks that are started for one order after another, however the previous one ended.

A process that measures for hours must not be a rank itself: a rank that fails may end all others,
and leaves a GPU in an unknown state. Ranks are therefore separate processes. Without a launcher,
one process starts all of them. If torchrun has started processes on several nodes, each starts and
watches one rank, on the orders of the first process.
"""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from dpsim.base.errors import FailedError
from validate.ranks.launch import RunFailed, launch, loopback
from validate.ranks.processes import LOST, ORDER, Place, meet, place_from_environment

_HOURS_S = 24 * 3600.0  # limits are the caller's, by ``look``
_LOOK_EVERY_S = 0.1
_GONE_S = 15.0  # until ranks of other processes have ended
_CAUSE_S = 3.0  # until the process of a failed rank has reported it

Look = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Program:
    """The program of each rank: an interpreter and its arguments; and modules slow to import."""

    command: tuple[str, ...]
    preload: tuple[str, ...] = ()


class Orders(ABC):
    """Executes orders; ``most`` is the most ranks there can be, None without a limit."""

    most: int | None = None

    @abstractmethod
    def carry_out(self, program: Program, ranks: int, look: Look) -> None:
        """Run ``program`` on ``ranks`` ranks until all have ended well.

        ``look`` is called several times a second; an exception in it ends the ranks. Raises
        FailedError in one line if a rank fails: all others are ended then.
        """

    def close(self) -> None:  # noqa: B027 - only a launcher's processes wait for orders
        """End the processes that wait for orders, if any."""


class OnThisMachine(Orders):
    """All ranks are started here."""

    def carry_out(self, program: Program, ranks: int, look: Look) -> None:
        _launch(program, ranks, {}, look)


class OfALauncher(Orders):
    """Rank 0 of the processes started by torchrun, or another launcher with the same variables."""

    def __init__(self, place: Place, store: Any) -> None:
        self.most = place.size
        self._place = place
        self._store = store
        self._number = 0

    def carry_out(self, program: Program, ranks: int, look: Look) -> None:
        """Let each process start the rank of its place, and collect how it ended."""
        key, self._number = f"order/{self._number}", self._number + 1
        self._store.set(key, json.dumps({"program": asdict(program), "ranks": ranks}))

        def look_around() -> None:
            if self._store.check([f"{key}/failed"]):
                raise FailedError(self._store.get(f"{key}/failed").decode())
            look()

        try:
            own = _variables(self._place, ranks, key)
            _launch(program, 1, own, look_around)
            self._gone(key, look_around)
        except _Lost:
            # Wait for the process of the rank that caused it to report why.
            self._gone(key, look_around, _CAUSE_S)
            look_around()
            raise
        finally:
            # Ranks that still run are killed, so that the next order finds the devices free.
            self._store.set(f"{key}/over", "")
            self._gone(key, lambda: None)

    def close(self) -> None:
        """Let the others end."""
        self._store.set(f"order/{self._number}", "null")
        self._gone(f"order/{self._number}", lambda: None)

    def _gone(self, key: str, look: Look, patience_s: float = _GONE_S) -> None:
        end = time.monotonic() + patience_s
        while self._store.add(f"{key}/gone", 0) < self._place.size - 1 and time.monotonic() < end:
            look()
            time.sleep(_LOOK_EVERY_S)


def orders_here() -> Orders | None:
    """Return the orders of this process; None in a process that has executed rank 0's orders.

    Under a launcher all its processes must call it. Raises FailedError if they do not connect.
    """
    if "RANK" not in os.environ:
        return OnThisMachine()
    place = place_from_environment()
    store = meet(place, 300.0)
    if place.rank == 0:
        return OfALauncher(place, store)
    _serve(place, store)
    return None


class _Lost(FailedError):  # noqa: N818 - it says what happened
    """A rank failed because another one was gone."""


class _Over(Exception):  # noqa: N818 - it is no error
    """Rank 0 has ended an order."""


def _serve(place: Place, store: Any) -> None:
    """Execute the orders of rank 0 until there are no more."""
    for number in range(10**9):
        key = f"order/{number}"
        while not store.check([key]):
            time.sleep(_LOOK_EVERY_S)
        order = json.loads(store.get(key))
        if order is not None and place.rank < order["ranks"]:
            _own_part(place, store, key, order)
        store.add(f"{key}/gone", 1)
        if order is None:
            return


def _own_part(place: Place, store: Any, key: str, order: dict[str, Any]) -> None:
    def look() -> None:
        if store.check([f"{key}/over"]):
            raise _Over

    program = Program(tuple(order["program"]["command"]), tuple(order["program"]["preload"]))
    try:
        _launch(program, 1, _variables(place, order["ranks"], key), look)
    except (_Over, _Lost):
        pass
    except FailedError as error:
        store.set(f"{key}/failed", f"{error}")


def _variables(place: Place, ranks: int, key: str) -> dict[str, str]:
    """Return the environment of this place's rank, which replaces that of a single machine."""
    fewer = replace(place, size=ranks, local_size=min(place.local_size, ranks))
    return {
        "RANK": str(fewer.rank),
        "WORLD_SIZE": str(fewer.size),
        "LOCAL_RANK": str(fewer.local_rank),
        "LOCAL_WORLD_SIZE": str(fewer.local_size),
        "MASTER_ADDR": os.environ["MASTER_ADDR"],
        "MASTER_PORT": os.environ["MASTER_PORT"],
        # The store exists already: torchrun's or that of rank 0's process.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", ""),
        ORDER: key,
    }


def _launch(program: Program, ranks: int, environment: dict[str, str], look: Look) -> None:
    try:
        launch(
            program.command,
            loopback(ranks),
            timeout_s=_HOURS_S,
            preload=program.preload,
            environment=environment,
            look=look,
        )
    except RunFailed as error:
        where = f"rank {environment.get('RANK', error.rank)} on {os.uname().nodename}"
        last = error.last_words.splitlines()[-1:] or ["it said nothing"]
        kind = _Lost if error.exit_code == LOST else FailedError
        raise kind(f"{where} {error.reason}: {last[0].strip()}") from error
