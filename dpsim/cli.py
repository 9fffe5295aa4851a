"""The command line: a thin shell over the library.

Results go to stdout, narration and progress bars to stderr.

Exit codes: 0 done; 1 failed; 2 bad usage or bad scenario; 3 ran, but a part failed or is outside
the asked tolerance.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import ClassVar

from dpsim.base.errors import DpsimError
from dpsim.commands.help import Commands, Group


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
)


def main() -> None:
    """Run the command line.

    What users got wrong is one clear message and exit code 2, never a traceback.
    """
    # Imports make hundreds of thousands of objects that stay: looking at them again and again for
    # garbage would be a sixth of a short run, and once more at the end.
    gc.set_threshold(200_000, 50, 100)
    try:
        app()
    except DpsimError as error:
        _fail(str(error), error.status)
    except BrokenPipeError:
        # Nobody reads on. What Python flushes when it ends must not meet the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        _fail("interrupted", 1)
    except Exception as error:
        if os.environ.get("DPSIM_DEBUG"):
            raise
        _fail(f"failed: {type(error).__name__}: {error} (DPSIM_DEBUG=1 shows where)", 1)
    finally:
        gc.freeze()


def _fail(message: str, code: int) -> None:
    for line in message.splitlines():
        sys.stderr.write(f"dpsim: {line}\n")
    raise SystemExit(code)
