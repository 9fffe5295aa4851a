"""Joins a process to the others of its run: rank, device, backend, and an orderly end.

A launcher (torchrun, or `validate.ranks.launch`) sets RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT, and on machines with several ranks LOCAL_RANK and LOCAL_WORLD_SIZE. Without RANK and
WORLD_SIZE a process is a run of one rank. The parts for CUDA and NCCL have not run on a GPU yet.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from dpsim.base.errors import DpsimError, FailedError, UnknownNameError
from dpsim.base.terminal import narrate
from validate.ranks.device import CpuFace, CudaFace, DeviceFace, why_no_gpu

BACKENDS = ("gloo", "nccl", "mpi")
DEVICES = ("cpu", "cuda")
AUTO = "auto"
_LONGEST_WAIT = timedelta(hours=1)
# Messages of gloo and NCCL about a rank that is gone.
_OF_LOST = re.compile(
    "closed by peer|reset by peer|broken pipe|remote process exited", re.IGNORECASE
)
DEFAULT_TIMEOUT = 60.0  # seconds that ranks wait for each other
# The env with the number of tasks that each has started, of which this process is one.
_OTHER_LAUNCHERS = {"SLURM_STEP_NUM_TASKS": "srun", "OMPI_COMM_WORLD_SIZE": "mpirun"}
LOST = 2
"""The exit code of a rank that fails since another one is gone."""
ORDER = "DPSIM_ORDER"
"""The variable that distinguishes the ranks of one order from other orders' at the same store."""
IMPORTED_LATE = "torch._dynamo"
"""The module that torch imports in DDP's first pass, with sympy: a second for each rank."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of this process, set by the launcher.

    It is ``rank`` of ``size``, and ``local_rank`` of ``local_size`` on this machine.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1


@dataclass(frozen=True, slots=True)
class World:
    """The ranks of a run, as seen by one of them.

    ``store`` is the key-value store through which they met, ``face`` the interface of the device.
    """

    place: Place
    backend: str
    face: DeviceFace
    store: Any
    timeout: float

    @property
    def device(self) -> Any:
        """The torch device of this rank's tensors."""
        return self.face.place

    @property
    def on_gpu(self) -> bool:
        """Whether this rank computes on a GPU."""
        return self.face.on_gpu

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self.place.rank

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.place.size

    @property
    def group(self) -> Any:
        """The process group of all ranks."""
        return dist.group.WORLD

    def synchronize(self) -> None:
        """Wait until the device has done all its work."""
        self.face.synchronize()

    def barrier(self) -> None:
        """Wait until every rank is here and its device is idle."""
        self.synchronize()
        self.meet()
        self.synchronize()

    def meet(self) -> None:
        """Wait at the backend's barrier, whatever the devices do."""
        # NCCL's barrier is a kernel: without a device torch would guess its GPU from the rank.
        dist.barrier(device_ids=[self.device.index] if self.backend == "nccl" else None)

    def gather(self, value: Any) -> list[Any]:
        """Return the ``value`` of every rank, on every rank; values are pickled."""
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    @contextmanager
    def on_rank_0(self, name: str) -> Iterator[bool]:
        """Yield True on rank 0, which works in the block while the others wait, an hour at most.

        The waiting ranks do not use their devices.
        """
        if self.rank:
            yield False
            # Not at a barrier of the backend: NCCL's would keep their GPUs busy.
            self.store.wait([name], _LONGEST_WAIT)
            return
        try:
            yield True
        finally:
            self.store.set(name, "done")


def ranks_of_launcher(environment: Mapping[str, str] | None = None) -> int | None:
    """Return the number of ranks started by torchrun or a compatible launcher; None without one.

    Raises DpsimError in a task of another launcher, where each task would start its own ranks.
    """
    env = os.environ if environment is None else environment
    if "RANK" in env:
        return place_from_environment(env).size
    for name, launcher in _OTHER_LAUNCHERS.items():
        if env.get(name, "1") != "1":
            raise DpsimError(
                f"RANK must be set in each of the {env[name]} tasks that {launcher} has started, "
                "with WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, but "
                "is not: start torchrun on each node, or one task alone"
            )
    return None


def place_from_environment(environment: Mapping[str, str] | None = None) -> Place:
    """Return the place set by RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE; else one rank.

    Raises DpsimError.
    """
    env = os.environ if environment is None else environment
    if "RANK" not in env and "WORLD_SIZE" not in env:
        return Place()
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        if name not in env:
            raise DpsimError(
                f"{name} must be set in the environment of every rank, but is not: start ranks "
                "with torchrun or --ranks"
            )
    size = _number(env, "WORLD_SIZE", 1, 2**20)
    rank = _number(env, "RANK", 0, size - 1)
    _number(env, "MASTER_PORT", 1, 65535)
    local_size = _number(env, "LOCAL_WORLD_SIZE", 1, size) if "LOCAL_WORLD_SIZE" in env else 1
    local_rank = _number(env, "LOCAL_RANK", 0, size - 1) if "LOCAL_RANK" in env else 0
    # If only LOCAL_RANK is set, this machine has at least as many ranks as it implies.
    return Place(rank, size, local_rank, max(local_size, local_rank + 1))


def _number(environment: Mapping[str, str], name: str, least: int, most: int) -> int:
    text = environment[name]
    if not (text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise DpsimError(f"{name} must be a number from {least} to {most}, but got {text!r}")
    return int(text)


def choose(place: Place, backend: str = AUTO, device: str = AUTO) -> tuple[str, DeviceFace]:
    """Return the backend and the device: NCCL and CUDA if there are GPUs.

    Otherwise the available ones. Ranks share GPUs in turn if there are fewer GPUs; NCCL cannot do
    so, which `agree_on_backend` handles once the ranks have met. Raises DpsimError for a choice
    that is unknown or not available on this machine.
    """
    _check_name("backend", backend, (AUTO, *BACKENDS))
    gpus = usable_gpus(device)
    if device == AUTO:
        device = "cuda" if gpus else "cpu"
    if backend == AUTO:
        backend = "nccl" if device == "cuda" and dist.is_nccl_available() else "gloo"
    missing = why_missing(backend)
    if missing:
        raise DpsimError(f"--backend must be one that is here, but got {backend}: {missing}")
    face: DeviceFace = CudaFace(place.local_rank % gpus) if device == "cuda" else CpuFace()
    return backend, face


def usable_gpus(device: str) -> int:
    """Return the number of GPUs that torch sees here.

    Raises DpsimError for an unknown ``device``, or if it is cuda and there are none.
    """
    _check_name("device", device, (AUTO, *DEVICES))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cuda" and not gpus:
        raise DpsimError(
            "--device must be one of this machine's, but got cuda, and torch sees no GPU here: "
            f"{why_no_gpu()}"
        )
    return gpus


def agree_on_backend(world: World, backend: str) -> World:
    """Return the world, with gloo if ranks share GPUs and ``backend`` does not ask for NCCL.

    All ranks call it once they are connected. They compare the GPUs that they use, not how many
    each sees: a scheduler may show each rank one of its own. Raises DpsimError if nccl was asked
    for and ranks share a GPU.
    """
    if world.backend != "nccl":
        return world
    world.store.set(f"gpu/{world.rank}", world.face.identity)
    owners: dict[str, int] = {}
    for rank in range(world.size):
        identity = world.store.get(f"gpu/{rank}").decode()
        first = owners.setdefault(identity, rank)
        if first == rank:
            continue
        if backend == "nccl":
            raise DpsimError(
                f"--backend nccl must have a GPU for each rank, but ranks {first} and {rank} share "
                f"GPU {identity}: start fewer ranks, or use --backend gloo"
            )
        if world.rank == 0:
            narrate(f"ranks {first} and {rank} share GPU {identity}: they meet by gloo, not nccl")
        return replace(world, backend="gloo")
    return world


def _check_name(what: str, name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise UnknownNameError(what, name, names)


def why_missing(backend: str) -> str:
    """Return why this torch cannot use ``backend`` here; empty if it can."""
    here = {
        "gloo": dist.is_gloo_available,
        "nccl": dist.is_nccl_available,
        "mpi": dist.is_mpi_available,
    }
    if not here[backend]():
        return f"torch {torch.__version__} was built without {backend}"
    if backend == "nccl" and not torch.cuda.is_available():
        return "torch sees no GPU here"
    return ""


@contextmanager
def joined(
    backend: str = AUTO, device: str = AUTO, timeout: float = DEFAULT_TIMEOUT
) -> Iterator[World]:
    """Yield the world of the process; all its ranks must enter.

    The process group is destroyed at the end. Ranks that miss each other for ``timeout`` seconds
    fail. Raises DpsimError for an invalid environment or choice, and FailedError, naming rank and
    host, if ranks do not meet.
    """
    place = place_from_environment()
    # Choose before ranks connect, so that a common error is reported without a time-out.
    chosen, face = choose(place, backend, device)
    if chosen == "nccl" and not face.on_gpu:
        raise DpsimError("--backend must be gloo or mpi with --device cpu, but got nccl")
    face.use()
    store = _anew(meet(place, timeout), place)
    agreed = agree_on_backend(World(place, chosen, face, store, timeout), backend)
    with process_group(agreed, "world") as world:
        yield world


def _anew(store: Any, place: Place) -> Any:
    """Return the part of ``store`` for this run: torchrun's outlives it, with old addresses."""
    own = dist.PrefixStore(os.environ.get(ORDER, ""), store)
    times = own.add(f"joined/{place.rank}", 1)
    return dist.PrefixStore(f"run/{times}", own)


@contextmanager
def process_group(world: World, name: str) -> Iterator[World]:
    """Open a process group of all ranks of ``world``, for its backend, during the block.

    A ``name`` can be used once per store.
    """
    try:
        # Without device_id: with it NCCL's collectives hang now and then (pytorch issue 153960),
        # and the device is chosen before.
        dist.init_process_group(
            world.backend,
            store=dist.PrefixStore(name, world.store),
            rank=world.rank,
            world_size=world.size,
            timeout=timedelta(seconds=world.timeout),
        )
    except RuntimeError as error:
        raise FailedError(
            f"{_who(world.place)} could not join {world.size} ranks by {world.backend}: "
            f"{first_line(error)}"
        ) from None
    try:
        yield world
    except BaseException:
        if world.backend != "nccl":  # NCCL's would wait for the missing calls of failed ranks
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()


def meet(place: Place, timeout: float) -> Any:
    """Return the key-value store of all ranks.

    Raises FailedError, naming rank and host, if they do not meet in time.
    """
    if place.size == 1 and "MASTER_PORT" not in os.environ:
        # A single rank connects to no other rank, so open no port.
        return dist.HashStore()
    patience = timedelta(seconds=timeout)
    try:
        store, _, _ = next(iter(rendezvous("env://", place.rank, place.size, timeout=patience)))
    except RuntimeError as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        what = f"waited for {place.size - 1} others" if place.rank == 0 else "did not reach rank 0"
        raise FailedError(
            f"{_who(place)} {what} at {where} for {timeout:g} s: {first_line(error)}"
        ) from None
    store.set_timeout(patience)
    return store


def _who(place: Place) -> str:
    return f"rank {place.rank} on {socket.gethostname()}"


def first_line(error: BaseException) -> str:
    """Return an error's message in one line without torch's traces and source locations."""
    kind = type(error).__name__
    lines = str(error).strip().splitlines()
    if not lines:
        return kind
    # torch begins with its source location: "[../torch/csrc/...cpp:123] ".
    first = re.sub(r"^\[\S+:\d+\]\s*", "", lines[0].strip())
    # NCCL gives the reason (no space in /dev/shm, no way to a peer) after "Last error:".
    reason = lines[lines.index("Last error:") + 1 :] if "Last error:" in lines else []
    return f"{kind}: {first}" + (f" ({reason[0].strip()})" if reason else "")


def leave(error: Exception) -> NoReturn:
    """End this rank at once, with the error in one line as its last words.

    Skips the interpreter's normal exit, where NCCL would wait for missing calls.
    """
    if os.environ.get("DPSIM_DEBUG"):
        raise error
    line = first_line(error)
    sys.stderr.write(f"{line}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    # A separate code if another rank has left: that one is the cause.
    os._exit(LOST if _OF_LOST.search(line) else 1)


def same_clock(world: World) -> bool:
    """Return whether all ranks share one monotonic clock, that is, run on one booted machine."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    # The kernel draws this anew at each boot; network namespaces of one machine share it.
    mine = boot.read_text() if boot.exists() else _who(world.place)
    return len(set(world.gather(mine))) == 1
