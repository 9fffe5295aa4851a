"""Transfers as fluid flows in SimPy: after its latency a flow moves at its max-min fair rate, which changes as others come and go.

All starts and ends of one instant go into one solve, for the flows that share a link with one that changed, directly or through
others. Flows of one call that are alike in route, latency and bytes are one flow with a weight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray
from simpy.core import EventPriority

from dpsim.network.maxmin import max_min_rates
from dpsim.topology.network import FloatArray, IntArray, Routes

Done = Callable[[IntArray], None]
Reroute = Callable[[IntArray], Routes]

_AFTER_ALL_ELSE = EventPriority(2)  # SimPy runs events of one instant by priority: 0 urgent, 1 normal
_ROUNDING = 1e-15  # of the clock: what adding up times can be off by
_NEARLY_NOTHING = 1e-12  # of a flow's bytes


@dataclass(slots=True, eq=False)
class _Flows:
    """The flows on their way, a row each: ``batch`` is the call it came from and ``group`` its number there."""

    links: IntArray
    size: FloatArray
    left: FloatArray
    rate: FloatArray
    weight: FloatArray
    batch: IntArray
    group: IntArray

    @classmethod
    def of(cls, links: IntArray, size: FloatArray, weight: FloatArray, batch: int, group: IntArray) -> _Flows:
        """New flows that have not moved yet; those without any link have nothing to wait for."""
        left = np.where((links < 0).all(axis=1), 0.0, size)
        return cls(links, size, left, np.zeros(len(size)), weight, np.full(len(size), batch), group)

    def __len__(self) -> int:
        return len(self.size)

    def keep(self, which: NDArray[Any]) -> None:
        """Drop all rows but ``which``."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name)[which])

    def add(self, others: _Flows) -> None:
        """Append the rows of ``others``."""
        hops = max(self.links.shape[1], others.links.shape[1])
        for flows in (self, others):
            flows.links = np.pad(flows.links, ((0, 0), (0, hops - flows.links.shape[1])), constant_values=-1)
        for name in self.__slots__:
            setattr(self, name, np.concatenate([getattr(self, name), getattr(others, name)]))


@dataclass(slots=True, eq=False)
class _Batch:
    """One call of `FluidNetwork.send`: which of its transfers each group stands for, and how many groups are still under way."""

    members: list[IntArray] | None  # None: each transfer is a group of its own
    done: Done
    reroute: Reroute | None
    open: int

    def transfers(self, groups: IntArray) -> IntArray:
        return groups if self.members is None else np.concatenate([self.members[group] for group in groups])


class Record:
    """What flows through some links over time: from ``times[i]`` on, ``rates[i]`` B/s (a vector over the links)."""

    def __init__(self, links: IntArray) -> None:
        self.links = links
        self.times: list[float] = []
        self.rates: list[FloatArray] = []

    def carried(self, until: float) -> FloatArray:
        """Bytes that each link carried up to ``until`` (s)."""
        spans = np.diff([*self.times, until])
        return np.asarray(spans @ np.array(self.rates)) if len(spans) else np.zeros(len(self.links))


class FluidNetwork:
    """Capacities (B/s) shared by flows, inside a SimPy environment."""

    def __init__(self, env: simpy.Environment, capacities: FloatArray) -> None:
        self.env = env
        self.capacities = np.array(capacities, dtype=np.float64)
        self.solves = 0
        none = np.empty(0)
        self._flows = _Flows.of(np.empty((0, 1), dtype=np.int64), none, none, 0, none.astype(np.int64))
        self._arriving: list[_Flows] = []
        self._batches: dict[int, _Batch] = {}
        self._calls = 0
        self._updated = env.now
        self._settling = False
        self._changed = np.zeros(len(capacities) + 1, dtype=bool)  # the last is for -1, no link
        self._alarm: simpy.Event | None = None
        self._records: list[Record] = []

    def send(self, routes: Routes, nbytes: FloatArray, done: Done, reroute: Reroute | None = None) -> None:
        """Start one flow per route now: its latency first, then its bytes.

        ``done(indices)`` is called as flows of the call end. ``reroute(indices)`` is asked for new routes when a link under them
        is cut (their latency is not paid again); without it they stop there.
        """
        first, members = _grouped(routes, nbytes)
        number, self._calls = self._calls, self._calls + 1
        self._batches[number] = _Batch(members, done, reroute, len(first))
        weight = np.ones(len(first)) if members is None else np.array([len(group) for group in members], dtype=np.float64)
        latency, size = routes.latency[first], np.asarray(nbytes, dtype=np.float64)[first]
        for wait in np.unique(latency):
            group = np.flatnonzero(latency == wait)
            self._after(float(wait), _Flows.of(routes.links[first][group], size[group], weight[group], number, group))

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> None:
        """Change capacities (B/s) from now on; 0 cuts a link: flows over it are rerouted, or stop until it is back."""
        self.capacities[links] = rate
        self._changed[links] = True
        self._touch()

    def record(self, links: IntArray) -> Record:
        """Keep what flows through ``links`` from now on."""
        self._records.append(Record(links))
        return self._records[-1]

    def _after(self, latency: float, flows: _Flows) -> None:
        if latency == 0:
            self._arrive(flows)
        else:
            self.env.timeout(latency).callbacks.append(lambda _: self._arrive(flows))

    def _arrive(self, flows: _Flows) -> None:
        self._arriving.append(flows)
        self._touch()

    def _touch(self) -> None:
        if not self._settling:
            self._settling = True
            _AfterAllElse(self.env).callbacks.append(self._settle)

    def _ring(self, alarm: simpy.Event) -> None:
        if alarm is self._alarm:
            self._touch()

    def _settle(self, _: simpy.Event) -> None:
        """Bring all flows up to now, end those that are through, let those in that have arrived, and share anew."""
        self._settling = True  # what the callbacks below send is let in by this very call
        flows = self._flows
        flows.left -= flows.rate * (self.env.now - self._updated)
        self._updated = self.env.now
        while True:
            for arrived in self._arriving:
                self._changed[arrived.links] = True
                flows.add(arrived)
            self._arriving.clear()
            ended = flows.left <= _NEARLY_NOTHING * flows.size + flows.rate * (self.env.now * _ROUNDING)
            if not ended.any():
                break
            self._end(ended)
        self._avoid_cut_links()
        self._share()
        self._settling = False
        self._set_alarm()

    def _end(self, ended: NDArray[np.bool_]) -> None:
        flows = self._flows
        batches, groups = flows.batch[ended], flows.group[ended]
        self._changed[flows.links[ended]] = True
        flows.keep(~ended)
        for number in np.unique(batches):
            batch = self._batches[int(number)]
            through = groups[batches == number]
            batch.open -= len(through)
            if not batch.open:
                del self._batches[int(number)]
            batch.done(batch.transfers(through))

    def _avoid_cut_links(self) -> None:
        """New routes for the flows whose link has been cut, where their sender knows any."""
        cut = np.append(self.capacities == 0, False)
        if not cut.any():
            return
        flows = self._flows
        stuck = [row for row in np.flatnonzero(cut[flows.links].any(axis=1)) if self._batches[int(flows.batch[row])].reroute]
        for row in stuck:
            batch = self._batches[int(flows.batch[row])]
            assert batch.reroute is not None
            links = batch.reroute(batch.transfers(flows.group[row : row + 1])[:1]).links
            number, group = int(flows.batch[row]), flows.group[row : row + 1]
            moved = _Flows.of(links, flows.size[[row]], flows.weight[[row]], number, group)
            moved.left = flows.left[[row]]
            self._changed[flows.links[row]] = self._changed[links] = True
            flows.add(moved)
        flows.keep(np.setdiff1d(np.arange(len(flows)), stuck))

    def _share(self) -> None:
        """Max-min fair rates for the flows joined to a change by shared links; all others keep theirs."""
        flows = self._flows
        self._changed[-1] = False
        among = self._joined(flows.links)
        flows.rate[among] = max_min_rates(flows.links[among], self.capacities, flows.weight[among])
        self._changed[:] = False
        self.solves += 1
        if self._records:
            self._write_records()

    def _write_records(self) -> None:
        flows = self._flows
        used = np.zeros(len(self.capacities) + 1)  # the last is for -1, no link
        np.add.at(used, flows.links, (flows.rate * flows.weight)[:, None])
        for record in self._records:
            record.times.append(self.env.now)
            record.rates.append(used[record.links])

    def _joined(self, links: IntArray) -> NDArray[np.bool_]:
        """The flows that share a link with a changed one, or with one that does, and so on."""
        among = np.asarray(self._changed[links].any(axis=1))
        count = 0
        while count < (count := int(among.sum())) < len(among):
            self._changed[links[among]] = True
            self._changed[-1] = False
            among = np.asarray(self._changed[links].any(axis=1))
        return among

    def _set_alarm(self) -> None:
        self._alarm = None
        moving = self._flows.rate > 0
        if moving.any():
            self._alarm = self.env.timeout(float((self._flows.left[moving] / self._flows.rate[moving]).min()))
            self._alarm.callbacks.append(self._ring)


class _AfterAllElse(simpy.Event):
    """An event of this very instant that runs when everything else of the instant has."""

    callbacks: list[Callable[[simpy.Event], None]]

    def __init__(self, env: simpy.Environment) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, priority=_AFTER_ALL_ELSE)


def _grouped(routes: Routes, nbytes: FloatArray) -> tuple[IntArray, list[IntArray] | None]:
    """The first transfer of each set of equal ones, and the members of each set (None where all differ)."""
    count, hops = routes.links.shape
    everyone = np.arange(count)
    if count < 2:
        return everyone, None
    # A random linear form of the links and the exact latency and size: equal transfers have equal keys.
    form = np.random.default_rng(0).integers(-(2**62), 2**62, hops)
    key = routes.links @ form
    key = key * 1000003 ^ routes.latency.view(np.int64) * 7919 ^ np.asarray(nbytes, dtype=np.float64).view(np.int64)
    _, first, group, sizes = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    if len(first) == count or not _alike(routes, nbytes, first[group]):
        return everyone, None
    return first, np.split(np.argsort(group, kind="stable"), np.cumsum(sizes)[:-1])


def _alike(routes: Routes, nbytes: FloatArray, representative: IntArray) -> bool:
    """Whether every transfer equals its representative: two different ones could share a key."""
    return bool(
        (routes.links == routes.links[representative]).all()
        and (routes.latency == routes.latency[representative]).all()
        and (np.asarray(nbytes) == np.asarray(nbytes)[representative]).all()
    )
