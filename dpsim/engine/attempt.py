"""Predictions that may fail, for studies that leave out what cannot be simulated."""

from __future__ import annotations

from dpsim.base.errors import DpsimError, FailedError
from dpsim.engine.result import Result
from dpsim.engine.run import simulate
from dpsim.scenario import Scenario


def try_simulate(scenario: Scenario) -> Result | DpsimError:
    """Return the prediction of ``scenario``, or the error, such as running out of GPU memory.

    Raises FailedError if this machine runs out of time or memory, which would stop other runs too.
    """
    try:
        return simulate(scenario)
    except FailedError:
        raise
    except DpsimError as error:
        return error
