"""A job whose ranks are killed and restarted by torch's elastic launcher, beside `goodput`.

    job = Job(ranks=4, steps=120, kills=(3.0, 2.0))
    killed = run(job)                                      # real processes, some minutes
    known = mean_restart(killed)                           # seconds from a kill until it computes
    compare(run(Job(ranks=4, steps=120, every=20, kills=(2.5, 4.0))), known)

Steps are timed waits and a real all-reduce by gloo. Every few steps rank 0 writes a checkpoint,
from which all continue after a kill. `dpsim.studies.goodput` simulates the same kills, and predicts
how the job's time is divided.
"""

from importlib.util import find_spec

from dpsim.base.errors import DpsimError, how_to_install

if find_spec("torch") is None:
    raise DpsimError(f"elastic jobs need torch; {how_to_install('validate')}")

from validate.elastic.account import Comparison, Job, Kill, Killed, compare, mean_restart, tally
from validate.elastic.launch import run

__all__ = ["Comparison", "Job", "Kill", "Killed", "compare", "mean_restart", "run", "tally"]
