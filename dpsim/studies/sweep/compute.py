"""What happens to one point, in whichever process: simulate it, write its row down at once."""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpsim.base.child import end_with
from dpsim.base.errors import DpsimError
from dpsim.engine import KeptJobs, prepared_by, simulate
from dpsim.studies.sweep.columns import row
from dpsim.studies.sweep.journal import BEGUN, DONE, Row, worker_name, write


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where workers leave rows: ``journals``, a folder that they may not see on other machines.

    ``parent``: the process that they work for, where they are of its own machine; they end when it
    has gone.
    """

    journals: Path
    parent: int | None = None


def compute(key: str, content: bytes, where: Workplace) -> Row:
    """The row of one pickled scenario, which stands in the worker's journal by then.

    ``kept`` says whether it does.

    An error that the scenario itself raises is final. Any other, such as too little memory, may
    pass: ``retry`` says so.
    """
    if where.parent is not None:
        end_with(where.parent)
        # The watch may begin after the parent has gone already.
        if os.getppid() != where.parent:
            os._exit(1)
    worker, kept = worker_name(), where.journals.is_dir()
    if kept:
        write(where.journals, worker, BEGUN, {"key": key})
    start = time.perf_counter()
    answer: Row = {"error": None, "retry": False}
    try:
        with prepared_by(_jobs().prepare):
            answer |= row(simulate(pickle.loads(content)))  # nosec B301 - this sweep's own
    except DpsimError as error:
        answer["error"] = "; ".join(str(error).splitlines())
    except Exception as error:  # a row for each point, whatever happens to it
        answer |= {"error": f"failed: {type(error).__name__}: {error}", "retry": True}
    answer |= {"key": key, "worker": worker, "seconds": time.perf_counter() - start}
    if kept:
        write(where.journals, worker, DONE, answer)
    return {**answer, "kept": kept}


@cache
def _jobs() -> KeptJobs:
    """Those of this process: points often differ in their seeds alone, and stand side by side."""
    return KeptJobs()
