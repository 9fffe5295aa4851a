"""Settings that an imported topology lacks: the user's, or the usual ones for the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.hardware import (
    Gpu,
    NvLinkPorts,
    gpus,
    links,
    typical_gpus,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """A catalogue name (or a link written out), and its source."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The user's settings of the machine; None means the file's, or the usual one."""

    gpu: str | None = None
    nic: str | None = None

    def choose(self, option: str, otherwise: str, source: str) -> Choice:
        """Return the user's choice for ``option``, or ``otherwise``.

        Raises UnknownNameError for a name that is not in the catalogue.
        """
        given = getattr(self, option)
        if given is None:
            return Choice(otherwise, source)
        known = gpus() if option == "gpu" else links()
        return Choice(known.canonical(given), f"given as --{option}")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The usual parts around a GPU, by names of the catalogue's links."""

    nvlink: str
    most_nvlinks: int  # of one GPU
    pcie: str
    between_sockets: str
    nic: str


# The socket links and network cards of servers built around each generation.
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
    """Return the usual parts around ``gpu``.

    Servers of newer or unknown GPUs are assumed to be Hopper's.
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
    """Return the NVLinks of the typical GPU of the same generation."""
    alike = (typical for typical in typical_gpus() if typical.architecture == gpu.architecture)
    return next((typical.nvlink for typical in alike if typical.nvlink), None)


def gpu_by_nvlinks(most: int) -> tuple[str, str]:
    """Return the GPU implied by a matrix with at most ``most`` NVLinks per GPU, and the reason."""
    if most == 0:
        return (
            "v100-pcie-16gb",
            "assumed: the text has no NVLinks that would tell the GPU; name yours with --gpu",
        )
    # Choose the oldest GPU with as many NVLinks, since their number grew with each generation.
    counts = _nvlinks_of_gpus()
    enough = min(most, max(counts.values()))
    name = next(name for name, count in counts.items() if count >= enough)
    return name, f"assumed: {most} NVLinks at a GPU; name yours with --gpu"


def most_nvlinks() -> int:
    """Return the largest number of NVLinks of any GPU."""
    return max(_nvlinks_of_gpus().values())


def _nvlinks_of_gpus() -> dict[str, int]:
    """Return the NVLinks of each typical GPU that connect it to all others, oldest first."""
    return {gpu.name: gpu.nvlink_fabric.count for gpu in typical_gpus() if gpu.nvlink_fabric}
