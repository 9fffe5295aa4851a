"""A collective without other traffic, timed as flows by compiled loops."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import check, check_memory
from dpsim.base.errors import FailedError
from dpsim.collectives import Round, Schedule
from dpsim.network.outcome import MessageCosts, Outcome
from dpsim.topology import Network, Routes

_MOST_TRANSFERS = 2**30  # the loops number each transfer twice, in 32 bits
_BYTES_A_TRANSFER = 160.0  # in the table, on links, and in the event queue
_INSTANTS = 100_000  # between two checks of the time limit

_SHORT, _REAL = np.int32, np.float64
_INPUTS = {
    "source": _SHORT,
    "destination": _SHORT,
    "round": _SHORT,
    "route": _SHORT,
    "size": _REAL,
    "reducing": _REAL,
    "link_of": _SHORT,
    "latency": _REAL,
    "capacity": _REAL,
}
_DONE, _MORE, _NO_MEMORY = 0, 1, 3


class _Run(ctypes.Structure):
    """The input fields of `Run` in ``messages.c``, followed by space for the loops' own."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("transfers", "ranks", "links", "hops")),
        *((name, ctypes.c_void_p) for name in _INPUTS),
        ("overhead", ctypes.c_double),
        ("finish", ctypes.c_void_p),
        ("made", ctypes.c_int64 * 40),
    )


def finish_by_loops(
    loops: ctypes.CDLL,
    network: Network,
    schedule: Schedule,
    starts: FloatArray,
    nbytes: int,
    costs: MessageCosts,
    itemsize: int,
) -> Outcome | None:
    """Return when each rank that enters at ``starts`` (s) finishes, and the load of each link.

    None if the loops do not support the case: routes that take shares of their links, or links of
    capacity 0. Raises FailedError if there is too little memory or time.
    """
    count = schedule.transfers
    if count > _MOST_TRANSFERS:
        return None
    check_memory(_BYTES_A_TRANSFER * count, f"{count:,} messages as flows")
    transfers = _TransferTable(network, schedule, nbytes, costs, itemsize)
    if transfers.routes.share is not None:
        return None
    begin = float(starts.min())
    finish = starts - begin
    if not _run(loops, transfers, network.capacities, costs.overhead, finish):
        return None
    return Outcome(begin + finish, transfers.loads(len(network.capacities)))


def _run(
    loops: ctypes.CDLL,
    transfers: _TransferTable,
    capacity: FloatArray,
    overhead: float,
    finish: FloatArray,
) -> bool:
    """Run all transfers; ``finish``, by rank, holds the starts and then the ends (s)."""
    run = _Run(
        len(transfers.inputs["source"]), len(finish), len(capacity), transfers.routes.links.shape[1]
    )
    kept = transfers.inputs | {"capacity": capacity}
    arrays = {name: np.ascontiguousarray(kept[name], dtype=kind) for name, kind in _INPUTS.items()}
    for name, array in arrays.items():
        setattr(run, name, array.ctypes.data)
    run.overhead = overhead
    run.finish = finish.ctypes.data

    # The loops' own fields must fit after the input fields.
    assert loops.messages_bytes() <= ctypes.sizeof(run)
    at = ctypes.byref(run)
    loops.messages_go_on.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    try:
        # A run that starts without an error is not finished yet.
        state = loops.messages_begin(at) or _MORE
        while state == _MORE:
            check()
            state = loops.messages_go_on(at, _INSTANTS)
    finally:
        loops.messages_close(at)
    if state == _NO_MEMORY:
        raise FailedError("needs more memory for messages as flows than this machine has")
    return bool(state == _DONE)


class _TransferTable:
    """All transfers of a schedule, round after round, and their routes.

    ``inputs`` holds the loops' inputs by name.
    """

    def __init__(
        self,
        network: Network,
        schedule: Schedule,
        nbytes: int,
        costs: MessageCosts,
        itemsize: int,
    ) -> None:
        self._network = network
        self._known: dict[bytes, NDArray[np.int32]] = {}  # routes of a round, by its pairs of ranks
        self._tables: list[Routes] = []
        self._routes = 0
        chunking = schedule.chunking(nbytes, itemsize)
        columns: list[tuple[NDArray[Any], ...]] = []
        for number, each in enumerate(schedule.each_round()):
            sizes = chunking.nbytes(each.chunk, each.count).astype(_REAL)
            reducing = sizes * each.reduce * costs.gamma
            round_ = np.full(len(each.source), number, dtype=_SHORT)
            ends = each.source.astype(_SHORT), each.destination.astype(_SHORT)
            columns.append((*ends, round_, self._route(each), sizes, reducing))
        names = list(_INPUTS)[: len(columns[0])]
        whole = (np.concatenate(column) for column in zip(*columns, strict=True))
        self.inputs: dict[str, NDArray[Any]] = dict(zip(names, whole, strict=True))
        self.routes = self._in_one_table()
        self.inputs |= {"link_of": self.routes.links, "latency": self.routes.latency}

    def _route(self, transfers: Round) -> NDArray[np.int32]:
        """Return the number of each transfer's route; rounds often share the same routes."""
        pairs = np.stack([transfers.source, transfers.destination])
        key = pairs.tobytes()
        if key not in self._known:
            self._tables.append(self._network.routes(*pairs))
            self._known[key] = np.arange(self._routes, self._routes + pairs.shape[1], dtype=_SHORT)
            self._routes += pairs.shape[1]
        return self._known[key]

    def _in_one_table(self) -> Routes:
        """Return all routes in one table, each with its links first and then padding."""
        hops = max(1, *(table.links.shape[1] for table in self._tables))
        links = np.full((self._routes, hops), -1, dtype=_SHORT)
        begin = 0
        for table in self._tables:
            end = begin + len(table.links)
            links[begin:end, : table.links.shape[1]] = table.links
            begin = end
        # The loops read a route up to its first padding.
        gaps = (links[:, :-1] < 0) & (links[:, 1:] >= 0)
        if gaps.any():
            order = np.argsort(links < 0, axis=1, kind="stable")
            links = np.take_along_axis(links, order, axis=1)
        shares = next((table.share for table in self._tables if table.share is not None), None)
        latency = np.concatenate([table.latency for table in self._tables])
        return Routes(links, latency, shares)

    def loads(self, capacities: int) -> FloatArray:
        """Return the bytes that each capacity carries."""
        of_route = np.bincount(self.inputs["route"], self.inputs["size"], minlength=self._routes)
        carried = np.repeat(of_route, self.routes.links.shape[1])
        links = np.where(self.routes.links < 0, capacities, self.routes.links)
        loads = np.bincount(links.ravel(), carried, minlength=capacities + 1)
        return loads[:-1].astype(np.float64)
