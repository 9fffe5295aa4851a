"""All ports on one non-blocking switch."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from dpsim.base.arrays import IntArray
from dpsim.topology.fabrics.fabric import Fabric, Ports, Switched, SwitchedConfig


class SingleSwitch(Switched):
    """Every port on one non-blocking switch.

    Capacity p is the link out of port p, ``ports.count + p`` the link into it.
    """

    def paths(self, source: IntArray, destination: IntArray) -> IntArray:
        """Return the link out of the source port and the link into the destination port."""
        return np.stack([source, self.ports.count + destination], axis=1)


class SingleSwitchConfig(SwitchedConfig):
    """All nodes on one non-blocking switch."""

    fabric: Literal["single-switch"] = Field(description="All nodes on one non-blocking switch.")

    def fabric_of(self, ports: Ports) -> Fabric:
        return SingleSwitch(ports)
