"""The GPU that a text names."""

from dpsim.hardware.gpu import Gpu, gpus
from dpsim.hardware.node import nodes


def gpu_named_in(text: str) -> Gpu | None:
    """Return the GPU that words such as "8 x H100 80GB PCIe Gen5" name, or None.

    If several are named, it is the one of a machine that the text names too, or else the one with
    the slowest memory, because a job waits for it.
    """
    named = [gpus()[name] for name in gpus().named_in(text)]
    if len(named) > 1:
        # In "A100 80GB PCIe (NC A100 v4)" the second A100 is part of the machine's name.
        machines = {nodes()[node].gpu.name for node in nodes().named_in(text)}
        named = [gpu for gpu in named if gpu.name in machines] or named
    return min(named, key=lambda gpu: gpu.memory_bandwidth.value, default=None)
