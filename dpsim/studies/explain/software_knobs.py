"""Knobs of the software: memory format, kernel launches, optimiser kernels."""

from __future__ import annotations

from dpsim.scenario import Scenario
from dpsim.studies.explain.knob import Change, Options

_MEASURED = "compute times were measured, by whatever software"
_FUSED = ("fused", "sharded")


def memory_format(scenario: Scenario) -> Options:
    """Store images channels last, as tensor cores require."""
    workload, model = scenario.workload, scenario.build_model()
    if model.measured is not None:
        return _MEASURED
    if not any(layer.kind == "conv" for layer in model.layers):
        return "the model has no convolutions"
    if workload.precision == "fp32":
        return "convolutions in fp32 take images as they are"
    if workload.words.memory_format == "channels_last":
        return "images are channels_last already"
    changed = {"workload.memory_format": "channels_last"}
    return (Change("memory format channels_first -> channels_last", changed),)


def condition(scenario: Scenario) -> Options:
    """Take links and hosts as tuned, like vendors' benchmarks."""
    if scenario.condition == "tuned":
        return "links and hosts are taken as tuned, or were measured"
    if scenario.profile is not None and scenario.profile.step is not None:
        return "the calibration has the cluster's steps"
    return (Change("cluster ordinary -> tuned", {"cluster.condition": "tuned"}),)


def execution(scenario: Scenario) -> Options:
    """Compile the model, or launch its kernels as a CUDA graph."""
    if scenario.build_model().measured is not None:
        return _MEASURED
    now = scenario.workload.words.execution
    return tuple(
        Change(f"execution {now} -> {name}", {"workload.execution": name})
        for name in ("compile", "cuda-graph")
        if name != now
    )


def optimizer_kernels(scenario: Scenario) -> Options:
    """Use one kernel for the whole optimiser step."""
    measured = scenario.build_model().measured
    if measured is not None and measured.optimizer() is not None:
        return _MEASURED
    now = scenario.workload.words.optimizer_kernels
    if now in _FUSED:
        return f"the update is {now} already"
    return (Change(f"optimizer {now} -> fused", {"workload.optimizer_kernels": "fused"}),)
