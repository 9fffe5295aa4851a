"""Scenarios on the devices of this node, GPUs or CPUs, beside their prediction.

    run = on_node(Case("scenario.yaml"), device="cuda", backend="nccl")     # from validate.emulate
    run.predicted.step_time_s["mean"], run.measured.step_time_s["mean"], run.memory

Needs torch. The parts for CUDA and NCCL have only run against a fake of ``torch.cuda``.
"""

from importlib.util import find_spec

from dpsim.base.errors import DpsimError, how_to_install

if find_spec("torch") is None:
    raise DpsimError(f"runs on a node need torch; {how_to_install('validate')}")

from validate.node.doctor import diagnosis
from validate.node.hardware import Here, as_here, check, here
from validate.node.items import Item
from validate.node.measure import items_of
from validate.node.methods import method_on
from validate.node.node_profile import node_profile, profile_in, scenario_here
from validate.node.plan_runner import carry
from validate.node.rows import Attempt, Rows, short
from validate.node.run import beside_prediction, on_node

__all__ = [
    "Attempt",
    "Here",
    "Item",
    "Rows",
    "as_here",
    "beside_prediction",
    "carry",
    "check",
    "diagnosis",
    "here",
    "items_of",
    "method_on",
    "node_profile",
    "on_node",
    "profile_in",
    "scenario_here",
    "short",
]
