"""The progress of all workers through a step, as a vector of clock times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, get_args

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.engine.calls import StagedCall
from dpsim.strategy.aggregation import Group
from dpsim.strategy.sync import Gate
from dpsim.workload import Loading, Program

if TYPE_CHECKING:
    from dpsim.engine.timeline import Timeline


class _Awaited(NamedTuple):
    """When an exchange ends for each worker (s); ``among`` workers take part in each exchange."""

    ends: FloatArray
    among: int


_TOLERANCE = 1e-12  # relative: smaller differences count as equal movement


def _all_moved(earlier: FloatArray, later: FloatArray, shift: float) -> bool:
    """Return whether all times (s) have moved by ``shift``."""
    return bool(np.abs(later - earlier - shift).max() <= _TOLERANCE * np.abs(later).max())


@dataclass(frozen=True, slots=True, eq=False)
class ClockState:
    """The state of all clocks at the end of a pass or of a step.

    ``waited``: the seconds exposed, waiting for stragglers, and encoding or decoding since the step
    began.
    """

    at: int
    time: FloatArray
    free: dict[Group, FloatArray]
    refilled_at: float
    awaited: dict[int, _Awaited]
    waited: tuple[FloatArray, FloatArray, FloatArray]
    recorded: int

    def since(self, before: ClockState) -> float:
        """Return the seconds that the first worker's clock has moved since ``before``."""
        return float(self.time[0] - before.time[0])

    def used_since(self, before: ClockState) -> set[Group]:
        """Return the groups that have communicated since ``before``."""
        # By identity: a vector that no call has touched is the same object.
        return {group for group in self.free if self.free[group] is not before.free[group]}

    def clocks_moved(self, before: ClockState) -> bool:
        """Return whether all clocks, of workers and links, have moved equally since ``before``."""
        shift = self.since(before)
        # Links without limiters are refilled at -inf, which has no difference.
        has_limiters = self.refilled_at > -np.inf
        refilled = shift if not has_limiters else self.refilled_at - before.refilled_at
        return (
            abs(refilled - shift) <= _TOLERANCE * abs(self.refilled_at)
            and _all_moved(before.time, self.time, shift)
            and all(
                _all_moved(before.free[group], self.free[group], shift)
                for group in self.used_since(before)
            )
        )

    def repeats(self, before: ClockState) -> bool:
        """Return whether a step from ``before`` to here repeats exactly if its work does."""
        earlier, later, shift = before.awaited, self.awaited, self.since(before)
        return (
            self.clocks_moved(before)
            and earlier.keys() == later.keys()
            and all(
                _all_moved(earlier[position].ends, later[position].ends, shift)
                for position in later
            )
        )


class Clocks:
    """The workers' progress through a step: their position, clocks, and the calls they wait for.

    ``free`` is when each worker's communication with all, its group or other groups has finished,
    ``refilled_at`` when the links' limiters will be full again.
    """

    def __init__(
        self,
        program: Program,
        positions: FloatArray,
        kind_of: IntArray,
        marks: set[int],
        gate: Gate,
        timeline: Timeline | None,
    ) -> None:
        self.program = program
        self.positions = positions
        self.kind_of = (
            kind_of if positions.shape[1] > 1 else slice(None)
        )  # one kind's times are broadcast to all workers
        # As a list, because reading single numbers is many times faster than from an array.
        self._common_positions: list[float] | None = (
            None if positions.shape[1] > 1 else positions[:, 0].tolist()
        )
        self.time = np.zeros(len(kind_of))
        # One vector for all groups: entries are replaced, never changed in place.
        self.free: dict[Group, FloatArray] = dict.fromkeys(get_args(Group), self.time)
        self.refilled_at = float("-inf")
        self.step = 0
        self._timeline = timeline
        self._kept_positions = marks | {0}
        self._marks = sorted(self._kept_positions)
        self._latest_call = 0
        self._gate = gate
        self._awaited: dict[int, _Awaited] = {}
        self._due: dict[int, FloatArray] = {}
        self._reached: dict[int, FloatArray] = {}

    @property
    def at(self) -> int:
        """The position that all workers have computed up to."""
        return self._at

    @property
    def records_step(self) -> bool:
        """Whether intervals of this step are recorded."""
        return self._timeline is not None and self.step in self._timeline.steps

    def note(self, stream: str, name: str, starts: FloatArray, ends: FloatArray) -> None:
        """Add an interval to the timeline, if there is one."""
        if self._timeline is not None:
            self._timeline.add(self.step, stream, name, starts, ends)

    def load(self, loading: Loading) -> FloatArray:
        """Wait for the next batch; return how many seconds each worker waits."""
        before, self.time = self.time, loading.take(self.time)
        self.note("input", "next batch", before, self.time)
        return self.time - before

    def begin(self, factor: FloatArray) -> None:
        """Start a step in which each worker's compute time is multiplied by ``factor``.

        Exchanges still awaited from the previous step are awaited in this one.
        """
        step = len(self.positions) - 1
        self._awaited = {position - step: call for position, call in self._awaited.items()}
        self._due = {position - step: seconds for position, seconds in self._due.items()}
        self._factor = factor
        self._at = self._latest_call = 0
        self._reached.clear()
        self.exposed = np.zeros_like(self.time)
        self.straggler = np.zeros_like(self.time)
        self.coding = np.zeros_like(self.time)
        self._arrive(0)

    def encode(self, call: StagedCall) -> FloatArray:
        """Compute until ``call`` is ready and encode it; return when each worker has done so.

        Encoding takes as long on a slow worker as on others.
        """
        ready = self.reached(call.ready)
        if not call.takes_encoding:
            return ready
        before = self.time
        self._spend(call.encode)
        self.note("compute", f"encode {call.name}", before, self.time)
        return np.maximum(ready + call.encode[self.kind_of], self.time)

    def decode(self, seconds: FloatArray) -> None:
        """Decode received payloads, which takes ``seconds`` on each kind of GPU."""
        before = self.time
        self._spend(seconds)
        self.note("compute", "decode", before, self.time)

    def decode_at(self, position: int, call: StagedCall) -> None:
        """Decode ``call`` when it has arrived, before anything past ``position``."""
        self._due[position] = self._due.get(position, 0.0) + call.decode

    def _spend(self, seconds: FloatArray) -> None:
        self.time = self.time + seconds[self.kind_of]
        self.coding = self.coding + seconds[self.kind_of]

    def reached(self, position: int) -> FloatArray:
        """Compute up to ``position`` if it is ahead; return when each worker reached it.

        Of the positions passed, only marks and the latest are kept.
        """
        if position not in self._reached:
            # Calls ask in ascending order except for the marks, so only those and the last are
            # kept.
            if self._latest_call not in self._kept_positions:
                self._reached.pop(self._latest_call, None)
            self._latest_call = position
            self.advance_to(position)
        return self._reached[position]

    def advance_to(self, position: int) -> None:
        """Compute up to ``position``, and wait for calls that are needed on the way."""
        for stop in self._stops(position):
            begin, before = self._at, self.time
            self.time = before + self._computing(begin, stop)
            if self._timeline is not None:
                self._note_passes(begin, stop, before)
            self._at = stop
            self._arrive(stop)

    def _stops(self, position: int) -> list[int]:
        """Return ``position`` and the marked or awaited positions before it."""
        marks = self._marks[
            bisect_right(self._marks, self._at) : bisect_left(self._marks, position)
        ]
        # Iterate over the smaller set: the positions on the way, or all awaited ones.
        between = range(self._at + 1, position)
        if len(between) < len(self._awaited):
            awaited = [stop for stop in between if stop in self._awaited]
        else:
            awaited = [stop for stop in self._awaited if stop in between]
        return sorted({*marks, *awaited, position}) if marks or awaited else [position]

    def _computing(self, begin: int, stop: int) -> FloatArray:
        """Return the seconds of computing between two positions."""
        if self._common_positions is not None:
            return self._factor * (self._common_positions[stop] - self._common_positions[begin])
        seconds = (self.positions[stop] - self.positions[begin])[self.kind_of]
        return np.asarray(self._factor * seconds)

    def _note_passes(self, begin: int, stop: int, before: FloatArray) -> None:
        """Record the computing since ``before``, each pass separately.

        Only the timeline is split into passes, not the clock's sums, so that recording does not
        change a step's last digit.
        """
        since = before
        for end in self.program.turns_between(begin, stop):
            until = self.time if end == stop else before + self._computing(begin, end)
            self.note("compute", self.program.name_of(end), since, until)
            since = until

    def state(self) -> ClockState:
        """Return the current state."""
        waited = self.exposed.copy(), self.straggler.copy(), self.coding.copy()
        recorded = 0 if self._timeline is None else self._timeline.recorded(self.step)
        awaited = dict(self._awaited)
        free = dict(self.free)
        return ClockState(self._at, self.time, free, self.refilled_at, awaited, waited, recorded)

    def repeat_step(self, before: ClockState, now: ClockState, times: int) -> None:
        """Advance by ``times`` steps like the one from ``before`` to ``now``, which repeats."""
        total = now.since(before) * times
        self._move_clocks(before, now, total)
        self._awaited = {
            position: call._replace(ends=call.ends + total)
            for position, call in now.awaited.items()
        }

    def _move_clocks(self, before: ClockState, now: ClockState, total: float) -> None:
        """Advance the clocks that moved from ``before`` to ``now`` by another ``total`` s."""
        self.time = now.time + total
        self.free |= {group: now.free[group] + total for group in now.used_since(before)}
        self.refilled_at = now.refilled_at + total

    def repeat(self, before: ClockState, now: ClockState, times: int) -> bool:
        """Advance by ``times`` passes like the one from ``before`` to ``now``, if it repeats.

        It repeats if it moved all clocks equally. Return whether it does.
        """
        length, end = self.program.pass_length, self.program.end
        shift = now.since(before)

        def relative(awaited: dict[int, _Awaited], begin: int) -> dict[int, _Awaited]:
            """Return the awaited exchanges by position, counted from the pass's ``begin``."""
            # Positions past all passes do not shift with the pass; ``end`` is added so that they
            # cannot collide with those inside.
            return {
                position - begin if position < end else position + end: call
                for position, call in awaited.items()
            }

        earlier, later = relative(before.awaited, before.at), relative(now.awaited, now.at)
        # Exchanges that were sent earlier for a later step do not affect these passes.
        untouched = {
            position
            for position in later
            if position >= end and later[position] is earlier.get(position)
        }
        if not now.clocks_moved(before) or earlier.keys() != later.keys():
            return False
        if not all(
            _all_moved(earlier[position].ends, later[position].ends, shift)
            for position in later.keys() - untouched
        ):
            return False
        if self._timeline is not None:
            self._timeline.repeat(self.step, slice(before.recorded, now.recorded), shift, times)

        # Times advance by the shift; waiting times grow by what one pass added to them.
        total = shift * times
        self._move_clocks(before, now, total)
        self._awaited = {
            position + length * times if position < end else position: call
            if position + end in untouched
            else call._replace(ends=call.ends + total)
            for position, call in now.awaited.items()
        }
        self.exposed, self.straggler, self.coding = (
            to + (to - since) * times for since, to in zip(before.waited, now.waited, strict=True)
        )
        self._at = now.at + length * times
        return True

    def wait_for(self, ends: FloatArray, position: int, among: int) -> None:
        """Let nothing past ``position`` start before ``ends`` (s, a vector over workers).

        ``among``: how many workers wait for one another, a group or all.
        """
        if position == self._at:
            self._wait(ends, among)
        else:
            before = self._awaited.get(position)
            if before is not None:
                ends, among = np.maximum(before.ends, ends), max(before.among, among)
            self._awaited[position] = _Awaited(ends, among)

    def _arrive(self, position: int) -> None:
        if position in self._kept_positions or position == self._latest_call:
            # Before any wait, because calls that are ready here are sent before others are awaited.
            self._reached.setdefault(position, self.time)
        # Exchanges needed at the end of this step are awaited at the start of the next one.
        if position in self._awaited and position < len(self.positions) - 1:
            self._wait(*self._awaited.pop(position))
            if position in self._due:
                self.decode(self._due.pop(position))

    def _wait(self, ends: FloatArray, among: int) -> None:
        """Wait until ``ends``, and attribute the wait to stragglers or the network."""
        for_others, for_network = waiting(self._gate, self.time, ends, among)
        self.straggler += for_others
        self.exposed += for_network
        self.time = np.maximum(self.time, ends)


def waiting(
    gate: Gate, begins: FloatArray, ends: FloatArray, among: int
) -> tuple[FloatArray, FloatArray]:
    """Return the seconds that each worker waits for others, and for the network.

    Worker i begins to wait at ``begins[i]`` (s) and continues at ``ends[i]``, if that is later. It
    waits for others until the last worker of its group begins to wait, and after that for the
    network.
    ``among``: how many workers wait for one another, a group or all.
    """
    last: FloatArray | float
    if among < len(begins):
        # Groups are consecutive workers, one row each.
        last = begins.reshape(-1, among).max(axis=1).repeat(among)
    elif gate.quorum < among:
        last = gate.quorum_ready_at(begins)
    else:
        last = float(begins.max())
    # In place, because for 100,000 workers new arrays would take as long as the sums.
    waits = ends - begins
    np.maximum(waits, 0.0, out=waits)
    for_others = last - begins
    np.maximum(for_others, 0.0, out=for_others)
    np.minimum(for_others, waits, out=for_others)
    waits -= for_others
    return for_others, waits
