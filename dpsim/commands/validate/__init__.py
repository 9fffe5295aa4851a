"""``dpsim validate``: predictions beside measurements; one file a command."""

from dpsim.commands.help import Commands as _Commands
from dpsim.commands.validate.backends import backends
from dpsim.commands.validate.calibrate import calibrate
from dpsim.commands.validate.compare import compare
from dpsim.commands.validate.microbench import microbench
from dpsim.commands.validate.reference import reference
from dpsim.commands.validate.run import run
from dpsim.commands.validate.testbed import run_on_testbed

validate_app = _Commands("Compare predictions with measurements.")


@validate_app.callback()
def _validate() -> None:
    """Compare predictions with measurements."""


validate_app.command()(backends)
validate_app.command()(calibrate)
validate_app.command()(compare)
validate_app.command()(microbench)
validate_app.command()(reference)
validate_app.command()(run)
validate_app.command("testbed")(run_on_testbed)

__all__ = [
    "backends",
    "calibrate",
    "compare",
    "microbench",
    "reference",
    "run",
    "run_on_testbed",
    "validate_app",
]
