"""What keeps steps from being alike."""

from dpsim.disturbance.jitter import LognormalJitterConfig

__all__ = ["LognormalJitterConfig"]
