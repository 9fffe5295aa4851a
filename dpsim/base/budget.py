"""What one simulation may take of this machine.

Beyond its seconds or its bytes it is refused with a number.

The seconds are those of the processor in the simulation's own thread, so that a busy machine does
not shorten them. What is under way asks for itself, in its loops; where nothing is under way,
nothing is refused. In a program of ours a signal asks as well, wherever a library is in Python.
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

# The environment's variable that says how many seconds one simulation may take.
TIME_LIMIT = "DPSIM_TIME_LIMIT"
MOST_SECONDS = 3600.0
# The part of the limit, and the seconds at most, after which the steps done so far say how long all
# will take.
_SURE, _SURE_S = 0.02, 0.5
_ASKS_EVERY = 0.1  # s of the processor between two signals beyond the limit
_LOOKS = 0.002  # s between two looks at how long all will take
_A_WHILE = 5.0  # s from which a forecast is worth a word
_DOUBT = 2.0  # steps may become faster than the first ones were

_WAY_OUT = "take fewer nodes or steps, or larger buckets"


@dataclass(slots=True)
class _Limit:
    """When a simulation has had its time.

    ``seconds`` is what it was given, ``end`` is in s of its thread; before ``look``, in s of the
    clock, it cannot come.
    """

    seconds: float
    end: float
    look: float


_limit: ContextVar[_Limit | None] = ContextVar("limit of the simulation under way", default=None)


class _TimeIsUp(BaseException):
    """Goes by what takes the error of one candidate of many for an answer, up to `limited`."""


@contextmanager
def limited(seconds: float | None = None) -> Iterator[None]:
    """Hold what runs inside to the limit of time: ``seconds``, or that of `time_limit`.

    What is part of something that is held to one already keeps that one.

    Raises FailedError, from `check`, where it takes longer, and where there is less memory than it
    asks for.
    """
    limit = _limit.get()
    is_first = limit is None
    if limit is None:
        seconds = time_limit() if seconds is None else seconds
        limit = _Limit(seconds, thread_time() + seconds, monotonic() + seconds)
    token = _limit.set(limit)
    asks = is_first and _signal_asks() and math.isfinite(time_left())
    try:
        if asks:
            signal.setitimer(signal.ITIMER_PROF, max(time_left(), _ASKS_EVERY), _ASKS_EVERY)
        yield
    except _TimeIsUp:
        raise over_time(limit.seconds) from None
    except Exception as error:
        # A library in C may turn what the signal raised into an error of its own, as DuckDB does.
        if asks and not isinstance(error, DpsimError) and not time_left():
            raise over_time(limit.seconds) from None
        if not isinstance(error, MemoryError):
            raise
        said = f": {error}" if str(error) else ""
        raise FailedError(
            f"needs more memory than this machine gives ({memory_here() / 1e9:.3g} GB){said}; "
            f"{_WAY_OUT}"
        ) from None
    finally:
        if asks:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
        _limit.reset(token)


def ask_by_signal() -> None:
    """From now on hold to the limit what does not ask for it, too, in the main thread.

    For a program that is ours alone: it takes the signal SIGPROF, where the system has it.
    """
    if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGPROF) is _ask:
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPROF, _ask)
        sys.unraisablehook = partial(_ignored, sys.unraisablehook)


def _ignored(
    hook: Callable[[sys.UnraisableHookArgs], object], what: sys.UnraisableHookArgs
) -> None:
    # Python swallows what is raised in a finalizer or a weak reference's callback. The next signal
    # asks again.
    if not isinstance(what.exc_value, _TimeIsUp):
        hook(what)


def _signal_asks() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and hasattr(signal, "SIGPROF") and signal.getsignal(signal.SIGPROF) is _ask


def _ask(number: int, frame: FrameType | None) -> None:
    # What is half imported would be found so by whatever this process does next.
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return
        frame = frame.f_back
    try:
        check()
    except FailedError:
        raise _TimeIsUp from None


def check() -> None:
    """Raise FailedError where what is under way has had its time; costs less than a microsecond."""
    limit = _limit.get()
    # The clock costs a tenth of the thread's time, which is no more than has passed.
    if limit is None or monotonic() < limit.look:
        return
    now = thread_time()
    limit.look = monotonic() + limit.end - now
    if now > limit.end:
        raise over_time(limit.seconds)


class OverTimeError(FailedError):
    """What took more of the processor than its limit."""


def over_time(seconds: float) -> OverTimeError:
    """What took more than the ``seconds`` of the limit, in words."""
    return OverTimeError(
        f"takes more than {seconds:,.4g} s of the processor, the limit: {_WAY_OUT}, or "
        f"set {TIME_LIMIT} (s)"
    )


def time_left() -> float:
    """Seconds of the processor that what is under way may still take, in whichever process."""
    limit = _limit.get()
    return time_limit() if limit is None else max(limit.end - thread_time(), 0.0)


class Budget:
    """The limit of time for a study: all its simulations together take no more than one may."""

    def __init__(self) -> None:
        self._whole = time_limit()
        self._begun = thread_time()

    @contextmanager
    def part(self, share: float = 1.0) -> Iterator[None]:
        """Hold a simulation to what is left of this ``share`` of the whole.

        Raises OverTimeError where it takes longer, and where nothing is left.
        """
        left = self._begun + share * self._whole - thread_time()
        if left <= 0:
            raise over_time(self._whole)
        try:
            with limited(left):
                yield
        except OverTimeError:
            raise over_time(self._whole) from None

    def forecast(self, simulations: int, seconds: float) -> str | None:
        """How long so many ``simulations`` of so many ``seconds`` take; None for a few seconds."""
        whole = simulations * seconds
        if whole < _A_WHILE:
            return None
        end = f", of which {self._whole:,.4g} s are allowed" if whole > self._whole else ""
        return (
            f"about {simulations} simulations of {seconds:.2g} s each: "
            f"about {whole:,.0f} s of the processor{end}"
        )


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
        """So many are done.

        Raises OverTimeError where all would take more than twice the time that is left.
        """
        self._check(done)
        self.progress(done)

    def _check(self, done: int) -> None:
        # Thousands of workers end steps of their own, and a thread's time is dear to ask for.
        clock = monotonic()
        if clock < self._look:
            return
        self._look = clock + _LOOKS
        limit, now = _limit.get(), thread_time()
        if not self._first:
            self._begun, self._first = now, done
        spent, counted = now - self._begun, done - self._first
        if limit is None or not counted:
            return
        if spent < min(_SURE * (limit.end - self._begun), _SURE_S):
            return
        whole = spent / counted * self.total
        if self._begun + whole / _DOUBT > limit.end:
            # Not a plain FailedError: who gave it a short time may give it a longer one.
            raise OverTimeError(
                f"would take about {whole:,.0f} s of the processor for {self.total:,} steps "
                f"({counted:,} took {spent:.2g} s), the limit is {limit.seconds:,.4g} s: "
                f"{self.quicker()}{_WAY_OUT}, or set {TIME_LIMIT} (s)"
            )


def time_limit() -> float:
    """Seconds of the processor that one simulation may take: an hour, or what the environment says.

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


def check_memory(nbytes: float, what: str, way_out: str = _WAY_OUT) -> None:
    """Raise FailedError, with the ``way_out``, where ``what`` needs more bytes than there are."""
    if nbytes > memory_here():
        here = f"this machine has {memory_here() / 1e9:.3g} GB"
        raise FailedError(f"{what} would need about {nbytes / 1e9:,.3g} GB, and {here}: {way_out}")


def memory_here() -> float:
    """Bytes that this process can have.

    The machine's memory, or the limit that is set on the process (``ulimit -v``).
    """
    try:
        import resource  # not on every system
    except ImportError:
        return math.inf
    machine = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
    return machine if allowed == resource.RLIM_INFINITY else min(machine, float(allowed))
