"""A scenario's steps on real ranks.

Passes are timed waits; all communication is real.

    case = Case("scenarios/testbed/allreduce.yaml")
    with Testbed(case.job().scenario.testbed) as testbed:         # from validate.ranks.testbed
        (measured,), failure = run_cases([case], testbed.hosts, timeout=60)
    measured.steps                                                # as dpsim.engine.steps.Steps

Each worker draws the simulator's jitter and slow-downs from the same seed, computes in timed waits
that sleep until absolute times, and has a thread that carries out its calls in order: all-reduces
and the like by their schedules over point-to-point messages (`validate.collectives.executor`),
gloo's own all-reduce by ``torch.distributed``, pushes and pulls to parameter servers that are ranks
of their own, exchanges of pairs. Payloads have the number of bytes that the simulator counts;
codecs cost timed waits. Parts of steps and staleness have the same meaning as in
`dpsim.engine.steps`: with several servers, the first one's versions count.
"""

from importlib.util import find_spec

from dpsim.base.errors import DpsimError, how_to_install

if find_spec("torch") is None:
    raise DpsimError(f"emulation needs torch; {how_to_install('validate')}")

from validate.emulate.placement import Placement, check, placement
from validate.emulate.program import emulate
from validate.emulate.ranks import Case, Measured, measurements_of, run_cases

__all__ = [
    "Case",
    "Measured",
    "Placement",
    "check",
    "emulate",
    "measurements_of",
    "placement",
    "run_cases",
]
