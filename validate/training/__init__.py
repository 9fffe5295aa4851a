"""Training from first principles on real ranks, by every data-parallel method that dpsim simulates.

    with joined() as world:                                      # from validate.ranks.processes
        record = train(method_named("local-sgd", every=8), world, Training(model="transformer"))

`METHODS` names the methods; `replay` computes the result that a run should have given, from its
records alone. Needs torch.
"""

from importlib.util import find_spec

from dpsim.base.errors import DpsimError, how_to_install

if find_spec("torch") is None:
    raise DpsimError(f"training needs torch; {how_to_install('validate')}")

from validate.training.fsdp import blocks_of
from validate.training.method import Method
from validate.training.proof import Proof, names_of, prove
from validate.training.rank_record import Event, RankRecord
from validate.training.replay import Replayed, replay
from validate.training.settings import Training
from validate.training.task import Task, cnn
from validate.training.train import METHODS, computing_step, method_named, train

__all__ = [
    "METHODS",
    "Event",
    "Method",
    "Proof",
    "RankRecord",
    "Replayed",
    "Task",
    "Training",
    "blocks_of",
    "cnn",
    "computing_step",
    "method_named",
    "names_of",
    "prove",
    "replay",
    "train",
]
