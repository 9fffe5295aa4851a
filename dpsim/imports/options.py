"""What an imported topology does not say.

The kinds of GPU and links, chosen by the user or assumed from the GPU's generation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpsim.hardware import Gpu, gpus, links


@dataclass(frozen=True, slots=True)
class Choice:
    """A catalogue name (or a link written out), and where it is from."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What the user says about the machine; None is what the file says, or what is usual for the
    GPU.
    """

    gpu: str | None = None
    nic: str | None = None
    nvlink: str | None = None
    pcie: str | None = None
    between_sockets: str | None = None
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
        return Choice(known.canonical(given), f"given as --{option.replace('_', '-')}")


@dataclass(frozen=True, slots=True)
class Generation:
    """What usually stands around GPUs of one architecture; names of the catalogue's links."""

    nvlink: str
    most_nvlinks: int  # of one GPU
    pcie: str
    between_sockets: str
    nic: str


_GENERATIONS = {
    "kepler": Generation("nvlink1", 0, "pcie3-x16", "qpi", "ib-fdr"),
    "maxwell": Generation("nvlink1", 0, "pcie3-x16", "qpi", "ib-fdr"),
    "pascal": Generation("nvlink1", 4, "pcie3-x16", "qpi", "ib-edr"),
    "volta": Generation("nvlink2", 6, "pcie3-x16", "qpi", "ib-edr"),
    "turing": Generation("nvlink2", 2, "pcie3-x16", "upi", "ethernet-25g"),
    "ampere": Generation("nvlink3", 12, "pcie4-x16", "xgmi2", "ib-hdr"),
    "ada": Generation("nvlink3", 0, "pcie4-x16", "xgmi2", "ib-hdr"),
    "hopper": Generation("nvlink4", 18, "pcie5-x16", "upi2", "ib-ndr"),
}


def generation(gpu: Gpu) -> Generation:
    """What usually stands around ``gpu``; newer or unknown architectures are taken for the newest
    known.
    """
    return _GENERATIONS.get(gpu.architecture, _GENERATIONS["hopper"])


def gpu_by_nvlinks(most: int) -> tuple[str, str]:
    """The GPU of the catalogue that a matrix with at most ``most`` NVLinks between or at its GPUs
    suggests, and why.
    """
    if most == 0:
        return (
            "v100-pcie-16gb",
            "assumed: the text has no NVLinks that would tell the GPU; name yours with --gpu",
        )
    for count, name in ((4, "p100-sxm2"), (6, "v100-sxm2-16gb"), (12, "a100-sxm-40gb")):
        if most <= count:
            return name, f"assumed: {most} NVLinks at a GPU; name yours with --gpu"
    return "h100-sxm", f"assumed: {most} NVLinks at a GPU; name yours with --gpu"
