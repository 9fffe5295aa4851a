"""The interface of a rank's device: its clock, its memory, and work that takes a given time.

One for the CPU and one for CUDA; all measurements use this interface. A mark on a GPU is an event
on the compute stream, so that work of another stream (NCCL's, say) does not count as computing. The
CUDA part has only run against a fake of ``torch.cuda``.
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

_TRIAL_CYCLES = 10_000_000  # 5 ms at 2 GHz: long compared with a launch
_TRIALS, _COUNTED_TRIALS = 20, 5  # an idle GPU runs slowly at first: the last ones count
OUT_OF_MEMORY = torch.cuda.OutOfMemoryError
"""The exception that torch raises when a GPU is out of memory."""


class DeviceFace(ABC):
    """The interface of a device. ``place`` is where torch puts tensors for it."""

    kind: str
    place: Any

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.kind == "cuda"

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the device."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """A key that is unique among all devices of all machines."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """The bytes of its memory."""

    @abstractmethod
    def use(self) -> None:
        """Make it the device that this process computes on."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the work of all streams is done."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until the work of the compute stream is done."""

    @abstractmethod
    def mark(self) -> Any:
        """Return a point of time in the compute stream: now, or when its queued work is done."""

    @abstractmethod
    def seconds(self, begin: Any, end: Any) -> float:
        """Return the seconds between two marks, waiting for the second if need be."""

    @abstractmethod
    def spin(self, seconds: float) -> None:
        """Keep the compute stream busy for ``seconds``."""

    @abstractmethod
    def new_stream(self) -> Any:
        """Return a separate queue of work, None if there is only one."""

    @abstractmethod
    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        """Launch the block's work on ``stream``."""

    @abstractmethod
    def fork(self, streams: Sequence[Any]) -> None:
        """Make ``streams`` wait for the current work of the compute stream."""

    @abstractmethod
    def join(self, streams: Sequence[Any]) -> None:
        """Make the compute stream wait for the current work of ``streams``."""

    @abstractmethod
    def reset_peak(self) -> None:
        """Restart the measurement of peak memory."""

    @abstractmethod
    def peak_bytes(self) -> int:
        """Return the peak memory of this process since `reset_peak`, in bytes."""


class CpuFace(DeviceFace):
    """The CPU: its clock is the host's, its memory the process's resident set."""

    kind = "cpu"
    place = torch.device("cpu")

    @property
    def name(self) -> str:
        """The processor's name, with the number of torch's threads."""
        return f"{processor()}, {torch.get_num_threads()} threads"

    @property
    def identity(self) -> str:
        """The process's host and id: ranks share a processor, but each counts as itself."""
        return f"{socket.gethostname()}/{os.getpid()}"

    @property
    def capacity(self) -> int:
        """The machine's memory."""
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def use(self) -> None:
        """Do nothing: the CPU is always in use."""

    def synchronize(self) -> None:
        """Do nothing: a CPU has no queued work."""

    def finish(self) -> None:
        """Do nothing: a CPU has no queued work."""

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, begin: float, end: float) -> float:
        return end - begin

    def spin(self, seconds: float) -> None:
        """Sleep: ranks share the CPU, so that spinning would slow down others."""
        if seconds > 0:  # even sleep(0) takes a tenth of a millisecond
            time.sleep(seconds)

    def new_stream(self) -> None:
        """Return None: there is only one stream."""

    def on_stream(self, stream: None) -> AbstractContextManager[Any]:
        return nullcontext()

    def fork(self, streams: Sequence[None]) -> None:
        """Do nothing: a CPU has no queued work."""

    def join(self, streams: Sequence[None]) -> None:
        """Do nothing: a CPU has no queued work."""

    def reset_peak(self) -> None:
        """Reset the peak by Linux's ``clear_refs``; elsewhere it counts from the process's start.

        Unused cached memory is freed first, if the C library can do so.
        """
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
        clear = Path("/proc/self/clear_refs")
        if clear.exists():
            # 5 resets VmHWM to the resident size, and clears nothing else: see proc(5).
            clear.write_text("5")

    def peak_bytes(self) -> int:
        """Return ``VmHWM``, or the process's ``ru_maxrss`` without ``/proc``."""
        status = Path("/proc/self/status")
        if not status.exists():
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        fields = dict(line.partition(":")[::2] for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024


class CudaFace(DeviceFace):
    """GPU number ``index`` of those visible to this process."""

    kind = "cuda"

    def __init__(self, index: int) -> None:
        self.index = index
        self.place = cuda_place(index)

    @property
    def name(self) -> str:
        return str(torch.cuda.get_device_name(self.index))

    @property
    def identity(self) -> str:
        """Its UUID; before torch 2.4, host name and index."""
        properties = torch.cuda.get_device_properties(self.index)
        found = getattr(properties, "uuid", None)
        return str(found) if found is not None else f"{socket.gethostname()}/{self.index}"

    @property
    def capacity(self) -> int:
        """The bytes of its memory that a program can have."""
        return int(torch.cuda.get_device_properties(self.index).total_memory)

    def use(self) -> None:
        """Select it before any allocation: NCCL takes the current device."""
        torch.cuda.set_device(self.index)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.index)

    def finish(self) -> None:
        torch.cuda.current_stream(self.index).synchronize()

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.index))
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        # An event that has not passed yet has no time.
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def spin(self, seconds: float) -> None:
        """Launch a kernel that counts as many cycles as the clock makes in the time."""
        if seconds > 0:
            self._sleep(int(seconds * self._cycles_per_second))

    def new_stream(self) -> Any:
        return torch.cuda.Stream(self.index)

    def on_stream(self, stream: Any) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = torch.cuda.stream(stream)
        return context

    def fork(self, streams: Sequence[Any]) -> None:
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream(self.index))

    def join(self, streams: Sequence[Any]) -> None:
        for stream in streams:
            torch.cuda.current_stream(self.index).wait_stream(stream)

    def reset_peak(self) -> None:
        """Reset the peak after freeing unused cached memory, so that it is not counted."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.index)

    def peak_bytes(self) -> int:
        """Return the peak of torch's allocator plus the driver's context."""
        free, total = torch.cuda.mem_get_info(self.index)
        # The driver counts the whole device, so memory of other processes would count as context,
        # too.
        context = total - free - torch.cuda.memory_reserved(self.index)
        return int(torch.cuda.max_memory_reserved(self.index) + context)

    @cached_property
    def _cycles_per_second(self) -> float:
        # Measure the clock, since it depends on the GPU's load and power limit.
        marks = [self.mark()]
        for _ in range(_TRIALS):
            self._sleep(_TRIAL_CYCLES)
            marks.append(self.mark())
        taken = [self.seconds(*both) for both in pairwise(marks)]
        return _TRIAL_CYCLES / median(taken[-_COUNTED_TRIALS:])

    def _sleep(self, cycles: int) -> None:
        # The current device is per thread: without this, other threads would use the first GPU.
        with torch.cuda.device(self.index):
            # torch's own sleep kernel, which has no public name.
            torch.cuda._sleep(cycles)


def cuda_place(index: int) -> Any:
    """Return a GPU's torch device; a function that a fake of CUDA can replace by the host."""
    return torch.device("cuda", index)


def why_no_gpu() -> str:
    """Return the reason why torch sees no GPU here, in one line."""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} was built for processors alone"
    if reason := why_silent():
        return reason
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return str(error).strip().splitlines()[0]
    return "there is none"


def processor() -> str:
    """Return the name of this machine's CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
