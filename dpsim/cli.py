"""The command line: results go to stdout, narration and progress bars to stderr.

Exit codes: 0 done; 1 failed; 2 bad usage or bad scenario; 3 ran, but a part failed or is outside
the asked tolerance; 130 interrupted (Ctrl-C).
"""

from __future__ import annotations

import os
import sys
from typing import ClassVar

from dpsim.base.errors import DpsimError
from dpsim.base.files import inputs_kept
from dpsim.base.terminal import Talk, choices_kept, says
from dpsim.commands.help import Commands, Group, Interrupted


class _EveryCommand(Group):
    # In the order in which --help lists them: what is asked first comes first.
    homes: ClassVar = {
        "run": "dpsim.commands.run:run",
        "compare": "dpsim.commands.compare:compare",
        "scale": "dpsim.commands.scale:scale",
        "tune": "dpsim.commands.tune:tune",
        "sweep": "dpsim.commands.sweep:sweep",
        "results": "dpsim.commands.results:results",
        "report": "dpsim.commands.report:report",
        "collective": "dpsim.commands.collective:collective",
        "memory": "dpsim.commands.memory:memory",
        "topology": "dpsim.commands.topology:topology",
        "converge": "dpsim.commands.converge:converge",
        "layer-split": "dpsim.commands.layer_split:layer_split",
        "app": "dpsim.commands.app:dashboard",
        "catalogue": "dpsim.commands.catalogue:catalogue",
        "check": "dpsim.commands.check:check",
        "schema": "dpsim.commands.schema:schema",
        "explain": "dpsim.commands.explain:explain_app",
        "import": "dpsim.commands.imports:import_app",
        "validate": "dpsim.commands.validate.commands:validate_app",
    }


app = Commands(
    "Predicts how long a data-parallel training step takes on a cluster, where the time goes and "
    "what would change it.",
    cls=_EveryCommand,
    is_whole=True,
)


def main() -> None:
    """Run the command line; what users got wrong is one clear message, never a traceback."""
    with inputs_kept(), choices_kept():
        try:
            app()
        except Interrupted:
            raise KeyboardInterrupt from None
        except DpsimError as error:
            _fail(str(error), error.status)
        except BrokenPipeError:
            # Nobody reads on. What Python flushes when it ends must not meet the closed pipe.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except Exception as error:
            if says(Talk.VERBOSE) or os.environ.get("DPSIM_DEBUG"):
                raise
            _fail(f"failed: {type(error).__name__}: {error} (-v shows where)", 1)


def _fail(message: str, code: int) -> None:
    for line in message.splitlines():
        sys.stderr.write(f"dpsim: {line}\n")
    raise SystemExit(code)
