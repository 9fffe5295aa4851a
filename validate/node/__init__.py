"""Scenarios on the devices of this node, GPUs or processors, beside their prediction.

    run = on_node(Case("scenario.yaml"), device="cuda", backend="nccl")     # from validate.emulate
    run.predicted.step_time_s["mean"], run.measured.step_time_s["mean"], run.memory

Needs torch. What is said of CUDA and NCCL has run against a fake of ``torch.cuda`` alone.
"""

from importlib.util import find_spec

from dpsim.base.errors import DpsimError, how_to_install

if find_spec("torch") is None:
    raise DpsimError(f"runs on a node need torch; {how_to_install('validate')}")

from validate.node.hardware import Here, as_here, check, here
from validate.node.methods import method_on
from validate.node.node_profile import node_profile, scenario_here
from validate.node.program import carry_out, twin_of
from validate.node.run import on_node
from validate.node.task import ScenarioTask

__all__ = [
    "Here",
    "ScenarioTask",
    "as_here",
    "carry_out",
    "check",
    "here",
    "method_on",
    "node_profile",
    "on_node",
    "scenario_here",
    "twin_of",
]
