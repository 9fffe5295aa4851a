"""When gradients meet: who takes part in a step, and who waits for whom."""

from dpsim.sync.bsp import BspConfig

__all__ = ["BspConfig"]
