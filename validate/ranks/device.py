"""The face of a rank's device: its clock, its memory, and work that takes a given time.

One for the CPU and one for CUDA; whoever measures asks this face and no other. A mark on a GPU is
an event on the compute stream, so that what another stream still does (NCCL's, say) ends no
computing. What is said here of CUDA has run against a fake of ``torch.cuda`` alone.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from validate.ranks.smi import why_silent

_TRIAL_CYCLES = 10_000_000  # 5 ms at 2 GHz: long beside a launch
_TRIALS, _COUNTED = 20, 5  # an idle GPU runs slowly at first: the last ones count
OUT_OF_MEMORY = torch.cuda.OutOfMemoryError
"""What torch raises where a GPU cannot hold more."""


class DeviceFace(ABC):
    """What is asked of a device. ``place`` is where torch puts tensors for it."""

    kind: str
    place: Any

    @property
    def on_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.kind == "cuda"

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """What tells it from all other devices of all machines."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Bytes of its memory."""

    @abstractmethod
    def use(self) -> None:
        """Make it the one that this process computes on."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until it has done all that any stream was given."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until the compute stream alone has come to its end."""

    @abstractmethod
    def mark(self) -> Any:
        """A point of time in the compute stream: now, or when what was queued is done."""

    @abstractmethod
    def seconds(self, begin: Any, end: Any) -> float:
        """Seconds between two marks that have both passed."""

    @abstractmethod
    def spin(self, seconds: float) -> None:
        """Keep the compute stream busy for ``seconds``."""

    @abstractmethod
    def new_stream(self) -> Any:
        """A queue of work of its own, None where there is but one."""

    @abstractmethod
    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """What is launched in the block goes to ``stream``."""

    @abstractmethod
    def fork(self, streams: Sequence[Any]) -> None:
        """``streams`` begin nothing before the compute stream has done what it was given."""

    @abstractmethod
    def join(self, streams: Sequence[Any]) -> None:
        """The compute stream goes on when ``streams`` have done what they were given."""

    @abstractmethod
    def reset_peak(self) -> None:
        """Count the most memory from here on."""

    @abstractmethod
    def peak_bytes(self) -> int:
        """The most memory that this process has held since `reset_peak`."""


class CpuFace(DeviceFace):
    """The processor: its clock is the host's, its memory the process's resident set."""

    kind = "cpu"
    place = torch.device("cpu")

    @property
    def name(self) -> str:
        """Its processor, with torch's threads on it."""
        return f"{processor()}, {torch.get_num_threads()} threads"

    @property
    def identity(self) -> str:
        """A processor is shared by all ranks: each counts as itself."""
        return f"{socket.gethostname()}/{os.getpid()}"

    @property
    def capacity(self) -> int:
        """The machine's memory."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def use(self) -> None:
        """It is always in use."""

    def synchronize(self) -> None:
        """A processor does all at once."""

    def finish(self) -> None:
        """A processor does all at once."""

    def mark(self) -> float:
        """The host's clock."""
        return time.perf_counter()

    def seconds(self, begin: float, end: float) -> float:
        """Their difference."""
        return end - begin

    def spin(self, seconds: float) -> None:
        """Sleep: ranks share the processors, so that spinning would slow down others."""
        if seconds > 0:  # even to sleep for nothing takes a tenth of a millisecond
            time.sleep(seconds)

    def new_stream(self) -> None:
        """There is but one."""

    def on_stream(self, stream: None) -> AbstractContextManager[Any]:
        """Nothing changes."""
        return nullcontext()

    def fork(self, streams: Sequence[None]) -> None:
        """A processor does all at once."""

    def join(self, streams: Sequence[None]) -> None:
        """A processor does all at once."""

    def reset_peak(self) -> None:
        """By Linux's ``clear_refs``; elsewhere the peak counts from the start of the process.

        What is cached for nobody goes back first, where the C library can do so.
        """
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        clear = Path("/proc/self/clear_refs")
        if clear.exists():
            # 5 sets VmHWM back to what is resident now, and clears nothing else: see proc(5).
            clear.write_text("5")

    def peak_bytes(self) -> int:
        """``VmHWM``, or what the system says of the process where there is no ``/proc``."""
        status = Path("/proc/self/status")
        if not status.exists():
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        fields = dict(line.partition(":")[::2] for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024


class CudaFace(DeviceFace):
    """GPU number ``index`` of those that this process sees."""

    kind = "cuda"

    def __init__(self, index: int) -> None:
        self.index = index
        self.place = cuda_place(index)

    @property
    def name(self) -> str:
        """As its driver calls it."""
        return str(torch.cuda.get_device_name(self.index))

    @property
    def identity(self) -> str:
        """Its UUID; before torch 2.4, host and number among those that can be seen."""
        properties = torch.cuda.get_device_properties(self.index)
        found = getattr(properties, "uuid", None)
        return str(found) if found is not None else f"{socket.gethostname()}/{self.index}"

    @property
    def capacity(self) -> int:
        """Bytes on the board that a program can have."""
        return int(torch.cuda.get_device_properties(self.index).total_memory)

    def use(self) -> None:
        """Before anything is put on it: NCCL takes the current device."""
        torch.cuda.set_device(self.index)

    def synchronize(self) -> None:
        """Of all streams."""
        torch.cuda.synchronize(self.index)

    def finish(self) -> None:
        """Of the current stream alone."""
        torch.cuda.current_stream(self.index).synchronize()

    def mark(self) -> Any:
        """An event on the current stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.index))
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        """Events count milliseconds."""
        # An event that has not passed yet has no time.
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def spin(self, seconds: float) -> None:
        """A kernel that counts cycles, as many as its clock makes in the time."""
        if seconds > 0:
            self._sleep(int(seconds * self._cycles_per_second))

    def new_stream(self) -> Any:
        """A stream of CUDA's."""
        return torch.cuda.Stream(self.index)

    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """As torch has it."""
        context: AbstractContextManager[Any] = torch.cuda.stream(stream)
        return context

    def fork(self, streams: Sequence[Any]) -> None:
        """Torch's streams wait for one another only where they are told to."""
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream(self.index))

    def join(self, streams: Sequence[Any]) -> None:
        """The same the other way round."""
        for stream in streams:
            torch.cuda.current_stream(self.index).wait_stream(stream)

    def reset_peak(self) -> None:
        """What is cached for nobody goes back first, so that it is not counted."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.index)

    def peak_bytes(self) -> int:
        """What torch's allocator held at most, with the context that the driver keeps beside."""
        free, total = torch.cuda.mem_get_info(self.index)
        # The driver counts the whole device: memory of other processes would count as context, too.
        context = total - free - torch.cuda.memory_reserved(self.index)
        return int(torch.cuda.max_memory_reserved(self.index) + context)

    @cached_property
    def _cycles_per_second(self) -> float:
        # Measured: a GPU's clock depends on its load and on its power limit.
        marks = [self.mark()]
        for _ in range(_TRIALS):
            self._sleep(_TRIAL_CYCLES)
            marks.append(self.mark())
        taken = [self.seconds(*both) for both in pairwise(marks)]
        return _TRIAL_CYCLES / median(taken[-_COUNTED:])

    def _sleep(self, cycles: int) -> None:
        # A thread that has not chosen a device has the first one, whichever its process uses.
        with torch.cuda.device(self.index):
            # torch's own sleep kernel: it has no public name.
            torch.cuda._sleep(cycles)


def cuda_place(index: int) -> Any:
    """Where tensors of a GPU are: apart, so that a stand-in for CUDA can keep them on the host."""
    return torch.device("cuda", index)


def why_no_gpu() -> str:
    """Why torch sees no GPU here, in one line."""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} was built for processors alone"
    if said := why_silent():
        return said
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error).strip().splitlines()[0]
    return "there is none"


def processor() -> str:
    """The name of this machine's CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
