"""Limits of one simulation's time and memory on this machine.

A simulation that exceeds them raises an error with the number.

The time limit counts CPU seconds of the simulation's own thread, so that a busy machine does not
shorten it. Running code checks the limit in its loops. In dpsim's own programs a signal checks it
too, wherever a library runs Python code.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, thread_time
from types import FrameType

from dpsim.base.errors import DpsimError, FailedError

# The environment variable with the seconds that one simulation may take.
TIME_LIMIT = "DPSIM_TIME_LIMIT"
MOST_SECONDS = 3600.0
# The share of the limit, or the seconds if that is less, after which steps give a forecast.
_FORECAST_SHARE, _FORECAST_S = 0.02, 0.5
_ASKS_EVERY = 0.1  # CPU seconds between two signals beyond the limit
_FORECAST_EVERY = 0.002  # s between two forecasts
_REPORTED_FROM = 5.0  # s from which a forecast is reported
_MARGIN = 2.0  # safety factor, because later steps may be faster than the first ones
_ROUGH_MARGIN = 8.0  # safety factor of estimates before the first step, up to five times off

_REMEDY = "take fewer nodes or steps, or larger buckets"


@dataclass(slots=True)
class _Limit:
    """The time limit of a simulation.

    ``seconds`` is the length that errors name, ``end`` is in s of its thread; ``look`` is the
    earliest time of the clock at which it can be reached, in s.
    """

    seconds: float
    end: float
    look: float


_limit: ContextVar[_Limit | None] = ContextVar("limit of the simulation under way", default=None)


class _TimeIsUp(BaseException):
    """Passes handlers that treat the error of one candidate as a result, up to `limited`."""


@contextmanager
def limited(seconds: float | None = None, whole: float | None = None) -> Iterator[None]:
    """Hold the code inside to a time limit: ``seconds``, or `time_limit`.

    ``whole`` is the limit that errors name, if ``seconds`` are only the rest of it. Nested contexts
    keep the outer limit, which also ends the code around them.

    Raises FailedError, from `check`, if it takes longer, or needs more memory than is available.
    """
    before = limit = _limit.get()
    if limit is None:
        seconds = time_limit() if seconds is None else seconds
        named = seconds if whole is None else whole
        limit = _Limit(named, thread_time() + seconds, monotonic() + seconds)
    _limit.set(limit)
    by_signal = before is None and _signal_checks() and math.isfinite(time_left())
    try:
        try:
            if by_signal:
                signal.setitimer(signal.ITIMER_PROF, max(time_left(), _ASKS_EVERY), _ASKS_EVERY)
            yield
        except Exception as error:
            # A C library may turn the signal's exception into an error of its own, as DuckDB does.
            if by_signal and not isinstance(error, DpsimError) and not time_left():
                raise over_time(limit.seconds) from None
            if not isinstance(error, MemoryError):
                raise
            reason = f": {error}" if str(error) else ""
            raise FailedError(
                f"needs more memory than this machine has ({available_memory() / 1e9:.3g} GB)"
                f"{reason}; {_REMEDY}"
            ) from None
        finally:
            _end(before, by_signal=by_signal)
    except _TimeIsUp:
        # Call `_end` again, because the signal may have interrupted the call above.
        _end(before, by_signal=by_signal)
        if before is not None:
            raise
        raise over_time(limit.seconds) from None


def _end(before: _Limit | None, *, by_signal: bool) -> None:
    _limit.set(before)  # a signal that comes now finds no limit
    if by_signal:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def check_by_signal() -> None:
    """From now on, check the limit by a signal too, in the main thread.

    Only for dpsim's own programs, because it takes the signal SIGPROF, if the system has it.
    """
    if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGPROF) is _on_signal:
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPROF, _on_signal)
        sys.unraisablehook = partial(_ignore_time_is_up, sys.unraisablehook)


def _ignore_time_is_up(
    hook: Callable[[sys.UnraisableHookArgs], object], unraisable: sys.UnraisableHookArgs
) -> None:
    # Python swallows exceptions in finalizers and in callbacks of weak references. The next signal
    # checks again.
    if not isinstance(unraisable.exc_value, _TimeIsUp):
        hook(unraisable)


def _signal_checks() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and hasattr(signal, "SIGPROF") and signal.getsignal(signal.SIGPROF) is _on_signal


def _on_signal(number: int, frame: FrameType | None) -> None:
    # Do not interrupt an import, because later imports would find a half-imported module.
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return
        frame = frame.f_back
    try:
        check()
    except FailedError:
        raise _TimeIsUp from None


def check() -> None:
    """Raise FailedError if the running code has used its time; takes less than a microsecond."""
    limit = _limit.get()
    # Reading the clock takes a tenth of the time, and thread time never runs faster than the clock.
    if limit is None or monotonic() < limit.look:
        return
    now = thread_time()
    limit.look = monotonic() + limit.end - now
    if now > limit.end:
        raise over_time(limit.seconds)


class OverTimeError(FailedError):
    """The code has used more CPU time than its limit."""


def over_time(seconds: float) -> OverTimeError:
    """Return the error for code that took more than the limit of ``seconds``."""
    return OverTimeError(
        f"takes more than {seconds:,.4g} CPU seconds, the limit: {_REMEDY}, or set {TIME_LIMIT} (s)"
    )


def time_left() -> float:
    """Return the CPU seconds that the running code may still use, in any process."""
    limit = _limit.get()
    return time_limit() if limit is None else max(limit.end - thread_time(), 0.0)


class Budget:
    """The time limit of a study: all its simulations together may take as long as one."""

    def __init__(self) -> None:
        self._whole = time_limit()
        self._begun = thread_time()

    @contextmanager
    def part(self, share: float = 1.0) -> Iterator[None]:
        """Limit a simulation to the rest of this ``share`` of the whole.

        Raises OverTimeError if it takes longer, and if nothing is left.
        """
        seconds_left = self._begun + share * self._whole - thread_time()
        if seconds_left <= 0:
            raise over_time(self._whole)
        is_outer = _limit.get() is None
        try:
            with limited(seconds_left, self._whole):
                yield
        except OverTimeError:
            # If a limit around the study is reached, the study cannot continue or answer.
            if is_outer or time_left():
                raise
            raise _TimeIsUp from None

    def stream(self, say: Callable[[str], None], done: int, total: int, found: str) -> bool:
        """Report what was ``found`` and how long all will take, unless that is a few seconds.

        Returns whether it was reported.
        """
        whole = (thread_time() - self._begun) / max(done, 1) * total
        if whole >= _REPORTED_FROM:
            say(f"{self._about(whole)}, {done:,} of {total:,} tried; {found}")
        return whole >= _REPORTED_FROM

    def forecast(self, simulations: int, seconds: float) -> str | None:
        """Return how long ``simulations`` of ``seconds`` each take; None for a few seconds."""
        whole = simulations * seconds
        if whole < _REPORTED_FROM:
            return None
        return f"about {simulations} simulations of {seconds:.2g} s each: {self._about(whole)}"

    def watch(self, say: Callable[[str], None], steps: int) -> Callable[[int], None]:
        """Return a simulation's ``progress`` that once reports how long it takes."""
        look = monotonic() + _REPORTED_FROM

        def progress(done: int) -> None:
            nonlocal look
            if monotonic() < look or not done:
                return
            look = math.inf
            whole = (thread_time() - self._begun) / done * steps
            say(f"simulating: {self._about(whole)}, {done:,} of {steps:,} steps are done")

        return progress

    def _about(self, whole: float) -> str:
        """Return a forecast of ``whole`` seconds, with how many are allowed if they are fewer."""
        allowed = f", of which {self._whole:,.4g} s are allowed" if whole > self._whole else ""
        return f"about {whole:,.0f} CPU seconds{allowed}"


@dataclass(slots=True)
class Forecast:
    """Forecast from the first of ``total`` equal steps how long all of them will take.

    The first step, which prepares, does not count. ``progress`` is called with the steps done.
    ``quicker`` is called before a refusal: it names a setting that takes less time, if any.
    """

    total: int
    progress: Callable[[int], None]
    quicker: Callable[[], str] = lambda: ""
    _begun: float = field(default_factory=thread_time, init=False)
    _first: int = field(default=0, init=False)
    _look: float = field(default=-math.inf, init=False)  # s of the clock

    def done(self, done: int) -> None:
        """Record that ``done`` parts are done.

        Raises OverTimeError if all would take more than twice the time that is left.
        """
        self._check(done)
        self.progress(done)

    def _check(self, done: int) -> None:
        # Thousands of workers end their own steps, and reading a thread's time is expensive.
        clock = monotonic()
        if clock < self._look:
            return
        self._look = clock + _FORECAST_EVERY
        limit, now = _limit.get(), thread_time()
        if not self._first:
            self._begun, self._first = now, done
        spent, counted = now - self._begun, done - self._first
        if limit is None or not counted:
            return
        if spent < min(_FORECAST_SHARE * (limit.end - self._begun), _FORECAST_S):
            return
        whole = spent / counted * self.total
        if self._begun + whole / _MARGIN > limit.end:
            raise self._too_long(whole, f"{counted:,} took {spent:.2g} s", limit)

    def expect(self, seconds: float) -> None:
        """Raise OverTimeError if an estimate before the first step exceeds the time left by far."""
        limit = _limit.get()
        if limit is not None and seconds > _ROUGH_MARGIN * time_left():
            raise self._too_long(seconds, "a rough estimate", limit)

    def _too_long(self, seconds: float, basis: str, limit: _Limit) -> OverTimeError:
        # The error is an OverTimeError, so that the caller may allow more time.
        return OverTimeError(
            f"would take about {seconds:,.0f} CPU seconds for {self.total:,} "
            f"step{'s' * (self.total > 1)} ({basis}), the limit is {limit.seconds:,.4g} s: "
            f"{self.quicker()}{_REMEDY}, or set {TIME_LIMIT} (s)"
        )


def time_limit() -> float:
    """Return the CPU seconds that one simulation may take: an hour, or the environment's value.

    Raises DpsimError.
    """
    text = os.environ.get(TIME_LIMIT)
    if text is None:
        return MOST_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise DpsimError(f"{TIME_LIMIT} must be a number of seconds above 0, but got {text!r}")
    return seconds


def check_memory(nbytes: float, what: str, remedy: str = _REMEDY) -> None:
    """Raise FailedError, with ``remedy``, if ``what`` needs more bytes than available."""
    if nbytes > available_memory():
        here = f"this machine has {available_memory() / 1e9:.3g} GB"
        raise FailedError(f"{what} would need about {nbytes / 1e9:,.3g} GB, and {here}: {remedy}")


def available_memory() -> float:
    """Return the bytes of memory that this process can have.

    The machine's memory, or the limit set for the process (``ulimit -v``).
    """
    try:
        import resource  # not on every system
    except ImportError:
        return math.inf
    machine = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    return machine if allowed == resource.RLIM_INFINITY else min(machine, float(allowed))
