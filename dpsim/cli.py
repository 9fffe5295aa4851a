"""The command line: results go to stdout, narration and progress bars to stderr.

Exit codes: 0 done; 1 failed; 2 bad usage or bad scenario; 3 ran, but a part failed or is outside
the asked tolerance; 130 interrupted (Ctrl-C).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dpsim.commands.start import run_program

if TYPE_CHECKING:
    from dpsim.commands.help import Commands

    app: Commands

# Listed by --help in this order, the most common first; then those that are only found by their
# files, under "More".
_COMMANDS = {
    "Predict": {
        "init": "dpsim.commands.init:init",
        "check": "dpsim.commands.check:check",
        "run": "dpsim.commands.run:run",
        "compare": "dpsim.commands.compare:compare",
        "scale": "dpsim.commands.scale:scale",
        "tune": "dpsim.commands.tune:tune",
        "sweep": "dpsim.commands.sweep:sweep",
    },
    "Understand": {
        "explain": "dpsim.commands.explain:explain_app",
        "trust": "dpsim.commands.trust:trust",
        "memory": "dpsim.commands.memory:memory",
        "collective": "dpsim.commands.collective:collective",
        "timelines": "dpsim.commands.timelines:timelines",
        "topology": "dpsim.commands.topology:topology",
        "converge": "dpsim.commands.converge:converge",
        "goodput": "dpsim.commands.goodput:goodput",
        "layer-split": "dpsim.commands.layer_split:layer_split",
        "advise": "dpsim.commands.advise:advise",
    },
    "Calibrate and validate": {
        "calibrate": "dpsim.commands.calibrate:calibrate",
        "import": "dpsim.commands.imports:import_app",
        "validate": "dpsim.commands.validate.commands:validate_app",
    },
    "Show": {
        "app": "dpsim.commands.app:dashboard",
        "results": "dpsim.commands.results:results",
        "plot": "dpsim.commands.plot:plot",
        "report": "dpsim.commands.report:report",
        "scenarios": "dpsim.commands.scenarios:scenarios",
        "catalogue": "dpsim.commands.catalogue:catalogue",
        "schema": "dpsim.commands.schema:schema",
    },
}


def _found() -> dict[str, str]:
    """Return the commands that the table does not name, each in a file of its name.

    ``flops.py`` has ``dpsim flops`` if its docstring begins so, as the function ``flops``.
    """
    folder = Path(__file__).with_name("commands")
    named = {home.partition(":")[0] for group in _COMMANDS.values() for home in group.values()}
    others = {
        file.stem: file
        for file in sorted(folder.glob("*.py"))
        if f"dpsim.commands.{file.stem}" not in named
    }
    return {
        name.replace("_", "-"): f"dpsim.commands.{name}:{name}"
        for name, file in others.items()
        if file.read_text(encoding="utf-8").startswith(f'"""``dpsim {name.replace("_", "-")}``')
    }


@cache
def _program() -> Commands:
    from dpsim.commands.help import Commands

    return Commands(
        "Predicts how long a data-parallel training step takes on a cluster, where the time goes "
        "and what would change it.",
        sections={**_COMMANDS, **({"More": more} if (more := _found()) else {})},
        is_root=True,
    )


def __getattr__(name: str) -> Commands:
    """Return ``app``, built on first access because Typer takes a while to import."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _program()


def main() -> None:
    """Run the command line."""
    run_program(_program)


if __name__ == "__main__":
    main()
