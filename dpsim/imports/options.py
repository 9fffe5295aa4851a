"""What an imported topology does not say, as the user gives it or as is usual for the GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpsim.hardware import (
    Gpu,
    NvLinkPorts,
    gpus,
    links,
    typical_gpus,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A catalogue name (or a link written out), and where it is from."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What the user says about the machine; None is what the file says, or what is usual."""

    gpu: str | None = None
    nic: str | None = None
    sockets: int | None = None
    use_nics: frozenset[str] = field(default_factory=frozenset)

    def choose(self, option: str, otherwise: str, source: str) -> Choice:
        """The user's choice for ``option``, or ``otherwise``.

        Raises UnknownNameError for what the catalogue lacks.
        """
        given = getattr(self, option)
        if given is None:
            return Choice(otherwise, source)
        known = gpus() if option == "gpu" else links()
        return Choice(known.canonical(given), f"given as --{option}")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What usually stands around a GPU; names of the catalogue's links."""

    nvlink: str
    most_nvlinks: int  # of one GPU
    pcie: str
    between_sockets: str
    nic: str


# The links between sockets and the network cards of servers that were built around a generation.
_SERVERS = {
    "kepler": ("qpi", "ib-fdr"),
    "maxwell": ("qpi", "ib-fdr"),
    "pascal": ("qpi", "ib-edr"),
    "volta": ("qpi", "ib-edr"),
    "turing": ("upi", "ethernet-25g"),
    "ampere": ("xgmi2", "ib-hdr"),
    "ampere-ga10x": ("xgmi2", "ib-hdr"),
    "ada": ("xgmi2", "ib-hdr"),
    "hopper": ("upi2", "ib-ndr"),
}


def surroundings(gpu: Gpu) -> Surroundings:
    """What usually stands around ``gpu``.

    Servers of newer or unknown GPUs are taken for Hopper's.
    """
    between_sockets, nic = _SERVERS.get(gpu.architecture, _SERVERS["hopper"])
    ports = gpu.nvlink or _ports_of_its_generation(gpu)
    return Surroundings(
        nvlink="nvlink1" if ports is None else ports.link,
        most_nvlinks=0 if ports is None else ports.count,
        pcie="pcie3-x16" if gpu.pcie is None else gpu.pcie.link,
        between_sockets=between_sockets,
        nic=nic,
    )


def _ports_of_its_generation(gpu: Gpu) -> NvLinkPorts | None:
    """The NVLinks of the typical GPU of the same generation."""
    alike = (typical for typical in typical_gpus() if typical.architecture == gpu.architecture)
    return next((typical.nvlink for typical in alike if typical.nvlink), None)


def gpu_by_nvlinks(most: int) -> tuple[str, str]:
    """The GPU that a matrix with at most ``most`` NVLinks at a GPU suggests, and why."""
    if most == 0:
        return (
            "v100-pcie-16gb",
            "assumed: the text has no NVLinks that would tell the GPU; name yours with --gpu",
        )
    # The oldest GPU that has as many: more NVLinks came with each generation.
    counts = _nvlinks_of_gpus()
    enough = min(most, max(counts.values()))
    name = next(name for name, count in counts.items() if count >= enough)
    return name, f"assumed: {most} NVLinks at a GPU; name yours with --gpu"


def most_nvlinks() -> int:
    """The most NVLinks that any GPU has."""
    return max(_nvlinks_of_gpus().values())


def _nvlinks_of_gpus() -> dict[str, int]:
    """The NVLinks of each typical GPU that they join to all others, oldest first."""
    return {gpu.name: gpu.nvlink_fabric.count for gpu in typical_gpus() if gpu.nvlink_fabric}
