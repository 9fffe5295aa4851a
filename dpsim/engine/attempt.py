"""A prediction that may not be possible, for studies that leave out what cannot be simulated."""

from __future__ import annotations

from dpsim.base.errors import DpsimError, FailedError
from dpsim.engine.result import Result
from dpsim.engine.run import simulate
from dpsim.scenario import Scenario


def try_simulate(scenario: Scenario) -> Result | DpsimError:
    """The prediction of ``scenario``, or why there is none: it does not fit in memory, say.

    Raises FailedError where this machine's time or memory is at its end, for others too.
    """
    try:
        return simulate(scenario)
    except FailedError:
        raise
    except DpsimError as error:
        return error
