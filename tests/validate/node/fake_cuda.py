"""A stand-in for ``torch.cuda``: GPUs whose tensors are on the host.

Their clock is the host's, and runs on by what kernels spin, without waiting. ``calls`` records the
product's calls of CUDA; a name that is not here fails loudly.
"""

import threading
import time
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import torch

from validate.microbench import device_rates
from validate.ranks import device

CYCLES_PER_SECOND = 1e9
GIB = 2**30


class Stream:
    def __init__(self, cuda, name="main"):
        self._cuda = cuda
        self.name = name

    def wait_stream(self, other):
        self._cuda.calls.append((self.name, "waits for", other.name))

    def synchronize(self):
        self._cuda.calls.append("stream.synchronize")


class Event:
    def __init__(self, cuda, enable_timing):
        assert enable_timing
        self._cuda = cuda

    def record(self, stream):
        assert isinstance(stream, Stream)
        self.at = self._cuda.host_clock() + self._cuda.spun

    def synchronize(self):
        assert self.at

    def elapsed_time(self, later):
        return 1e3 * (later.at - self.at)


class FakeCuda:
    """``uuids`` are those of the GPUs that this process sees."""

    def __init__(self, uuids=("GPU-a",), name="NVIDIA H100 80GB HBM3"):
        self.uuids = uuids
        self.name = name
        self.calls = []
        self.main = Stream(self)
        self.chosen = threading.local()  # as CUDA has it: each thread has a current stream
        self.peak = 0
        self.host_clock = time.perf_counter
        self.spun = 0.0
        self.streams = 0
        self.Event = partial(Event, self)
        self.in_use = 3 * GIB

    def is_available(self):
        return True

    def device_count(self):
        return len(self.uuids)

    def get_device_name(self, index):
        return self.name

    def get_device_properties(self, index):
        return SimpleNamespace(uuid=self.uuids[index], total_memory=80 * GIB)

    def set_device(self, index):
        self.calls.append(("set_device", index))

    def synchronize(self, index):
        self.calls.append("synchronize")

    def current_stream(self, index):
        return getattr(self.chosen, "stream", self.main)

    def Stream(self, index):  # noqa: N802 - torch's name
        self.streams += 1
        return Stream(self, f"stream {self.streams}")

    @contextmanager
    def device(self, index):
        self.calls.append(("device", index))
        yield

    @contextmanager
    def stream(self, stream):
        before, self.chosen.stream = self.current_stream(None), stream
        self.calls.append("stream")
        yield
        self.chosen.stream = before

    def _sleep(self, cycles):
        self.calls.append(("sleep", cycles))
        self.spun += cycles / CYCLES_PER_SECOND

    def empty_cache(self):
        self.calls.append("empty_cache")

    def reset_peak_memory_stats(self, index):
        self.peak = 3 * GIB

    def max_memory_reserved(self, index):
        return self.peak

    def memory_reserved(self, index):
        return 2 * GIB

    def mem_get_info(self, index):
        return 80 * GIB - self.in_use, 80 * GIB

    def is_current_stream_capturing(self):
        # Optimisers ask; torch built for CUDA would go to a driver that is not there.
        return False


def stand_in(patch, **reported):
    """Put a `FakeCuda` in the place of torch's."""
    cuda = FakeCuda(**reported)
    names = [name for name in dir(cuda) if not name.startswith("__")]
    for name in names:
        if hasattr(torch.cuda, name):
            patch.setattr(torch.cuda, name, getattr(cuda, name))
    patch.setattr(device, "cuda_place", lambda index: torch.device("cpu"))
    return cuda


def small_products(patch):
    """Products that a processor computes at once."""
    patch.setattr(device_rates, "_SIDES", (16,))
    patch.setattr(device_rates, "_VECTOR", {"cuda": 2**10})
    patch.setattr(device_rates, "_CONV", {"cuda": (1, 2, 4)})
    patch.setattr(device_rates, "_ATTENTION", {"cuda": (1, 1, 8, 4)})
