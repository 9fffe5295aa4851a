"""Transfers as fluid flows in SimPy: after its latency a flow moves at its max-min fair rate, which changes as others come and go.

All starts and ends of one instant go into one solve.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy
from simpy.core import EventPriority

from dpsim.network.maxmin import max_min_rates
from dpsim.topology.network import FloatArray, IntArray, Routes

Done = Callable[[IntArray], None]

_AFTER_ALL_ELSE = EventPriority(2)  # SimPy runs events of one instant by priority: 0 urgent, 1 normal
_ROUNDING = 1e-15  # of the clock: what adding up times can be off by
_NEARLY_NOTHING = 1e-12  # of a flow's bytes


@dataclass(slots=True, eq=False)
class _Flows:
    """The flows on their way: ``batch`` says which call of `FluidNetwork.send` each came from, ``index`` its place in that call."""

    links: IntArray = field(default_factory=lambda: np.empty((0, 1), dtype=np.int64))
    size: FloatArray = field(default_factory=lambda: np.empty(0))
    left: FloatArray = field(default_factory=lambda: np.empty(0))
    rate: FloatArray = field(default_factory=lambda: np.empty(0))
    batch: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    index: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def add(self, links: IntArray, nbytes: FloatArray, batch: int, index: IntArray) -> None:
        hops = max(self.links.shape[1], links.shape[1])
        self.links = np.concatenate([_widened(self.links, hops), _widened(links, hops)])
        self.size = np.concatenate([self.size, nbytes])
        self.left = np.concatenate([self.left, nbytes])
        self.rate = np.concatenate([self.rate, np.zeros(len(nbytes))])
        self.batch = np.concatenate([self.batch, np.full(len(nbytes), batch)])
        self.index = np.concatenate([self.index, index])

    def keep(self, which: Any) -> None:
        for name in ("links", "size", "left", "rate", "batch", "index"):
            setattr(self, name, getattr(self, name)[which])


def _widened(links: IntArray, hops: int) -> IntArray:
    if links.shape[1] == hops:
        return links
    return np.pad(links, ((0, 0), (0, hops - links.shape[1])), constant_values=-1)


class FluidNetwork:
    """Capacities shared by flows, inside a SimPy environment."""

    def __init__(self, env: simpy.Environment, capacities: FloatArray) -> None:
        self.env = env
        self.capacities = capacities
        self.solves = 0
        self._flows = _Flows()
        self._arriving: list[tuple[IntArray, FloatArray, int, IntArray]] = []
        self._done: dict[int, Done] = {}
        self._unfinished: dict[int, int] = {}
        self._batches = 0
        self._updated = env.now
        self._touched = False
        self._alarm: simpy.Event | None = None

    def send(self, routes: Routes, nbytes: FloatArray, done: Done) -> None:
        """Start one flow per route now: its latency first, then its bytes; ``done(indices)`` is called as flows of the call end."""
        number = self._batches
        self._batches += 1
        self._done[number] = done
        self._unfinished[number] = len(nbytes)
        for latency in np.unique(routes.latency):
            index = np.flatnonzero(routes.latency == latency)
            arrival = (routes.links[index], np.asarray(nbytes, dtype=np.float64)[index], number, index)
            if latency == 0:
                self._arrive(arrival)
            else:
                self._after(float(latency), arrival)

    def _after(self, latency: float, arrival: tuple[IntArray, FloatArray, int, IntArray]) -> None:
        timeout = self.env.timeout(latency)
        timeout.callbacks.append(lambda _: self._arrive(arrival))

    def _arrive(self, arrival: tuple[IntArray, FloatArray, int, IntArray]) -> None:
        self._arriving.append(arrival)
        self._touch()

    def _ring(self, alarm: simpy.Event) -> None:
        if alarm is self._alarm:
            self._touch()

    def _touch(self) -> None:
        if not self._touched:
            self._touched = True
            _AfterAllElse(self.env).callbacks.append(self._settle)

    def _settle(self, _: simpy.Event) -> None:
        """Bring all flows up to now, end those that are through, let those in that have arrived, and share anew."""
        self._touched = True  # what the callbacks below send is let in by this very call
        flows = self._flows
        flows.left -= flows.rate * (self.env.now - self._updated)
        self._updated = self.env.now
        while True:
            self._let_in()
            ended = flows.left <= _NEARLY_NOTHING * flows.size + flows.rate * (self.env.now * _ROUNDING)
            if not ended.any() and not self._arriving:
                break
            self._end(ended)
        self._touched = False
        flows.rate = max_min_rates(flows.links, self.capacities)
        self.solves += 1
        self._set_alarm()

    def _let_in(self) -> None:
        for arrival in self._arriving:
            links, nbytes, batch, index = arrival
            unlimited = (links < 0).all(axis=1)
            self._flows.add(links, np.where(unlimited, 0.0, nbytes), batch, index)
        self._arriving.clear()

    def _end(self, ended: Any) -> None:
        flows = self._flows
        batches, indices = flows.batch[ended], flows.index[ended]
        flows.keep(~ended)
        for batch in np.unique(batches):
            number = int(batch)
            of_batch = indices[batches == batch]
            done = self._done[number]
            self._unfinished[number] -= len(of_batch)
            if not self._unfinished[number]:
                del self._done[number], self._unfinished[number]
            done(of_batch)

    def _set_alarm(self) -> None:
        self._alarm = None
        flows = self._flows
        if len(flows.left):
            self._alarm = self.env.timeout(float((flows.left / flows.rate).min()))
            self._alarm.callbacks.append(self._ring)


class _AfterAllElse(simpy.Event):
    """An event of this very instant that runs when everything else of the instant has."""

    callbacks: list[Callable[[simpy.Event], None]]

    def __init__(self, env: simpy.Environment) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, priority=_AFTER_ALL_ELSE)
