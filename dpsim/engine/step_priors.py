"""Priors of a cluster's step constants, before any of its steps is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from dpsim.base.shipped import shipped_yaml
from dpsim.hardware import StepConstants
from dpsim.scenario import Scenario


class Prior(NamedTuple):
    """The prior of a constant; a constant with a spread of 0 is not fitted."""

    name: str
    value: float
    spread: float
    unit: str


def step_noise() -> float:
    """Return the unexplained spread of a measured step, of its logarithm."""
    return float(_file()["noise"])


class ResidualPrior(NamedTuple):
    """The prior of residuals: the spread of their logarithm, and their range in doublings."""

    spread: float
    doublings: float


def residual_prior(scenario: Scenario) -> ResidualPrior:
    """Return the prior of residuals: their spread, and how far nearby runs share them."""
    return ResidualPrior(**{**_file()["residual"], **_replaced(scenario).get("residual", {})})


def constants_of_steps(scenario: Scenario) -> StepConstants:
    """Return the calibration's step constants, or the centres of an ordinary cluster's priors."""
    profile = scenario.profile
    if profile is not None and profile.step is not None:
        return profile.step
    values = {prior.name: prior.value for prior in priors_of(scenario)}
    if scenario.workload.input.kind != "script":
        # Without a script's data loaders, GPUs do not compete for the host's memory and cores.
        values["crowding"] = 0.0
    return StepConstants(**values)


def priors_of(scenario: Scenario) -> Iterator[Prior]:
    """Yield the priors of a cluster's constants, by its condition, software and interconnects.

    On a tuned cluster they are centred on constants that change nothing.
    """
    tuned = _replaced(scenario)
    has_nvlink = all(part.accelerator.nvlink_fabric for part in scenario.cluster.parts)
    members = {
        "host": scenario.workload.software,
        "inside": "nvlink" if has_nvlink else "pcie",
        "between": "rdma" if _has_rdma(scenario) else "sockets",
    }
    for name in StepConstants.model_fields:
        entry = _file()[name]
        if name in members:
            entry = entry[members[name]]
        entry = {**entry, **tuned.get(name, {})}
        yield Prior(name, float(entry["value"]), float(entry.get("spread", 0)), entry["unit"])


def _replaced(scenario: Scenario) -> Mapping[str, Any]:
    """Return the entries that replace an ordinary cluster's."""
    found: dict[str, Any] = _file()["tuned_cluster"] if scenario.condition == "tuned" else {}
    return found


def _has_rdma(scenario: Scenario) -> bool:
    network = scenario.cluster.network
    name = "" if network is None or network.nic is None else network.nic.name
    return any(word in name for word in ("ib-", "roce", "slingshot", "omni"))


@cache
def _file() -> Mapping[str, Any]:
    loaded: dict[str, Any] = shipped_yaml(files("dpsim.engine") / "step_priors.yaml")
    return loaded
