"""The commands of the command line, one file each; `dpsim.cli` puts them together."""

from dpsim.commands.app import dashboard
from dpsim.commands.converge import converge
from dpsim.commands.explain import explain_app
from dpsim.commands.imports import import_app
from dpsim.commands.layer_split import layer_split
from dpsim.commands.memory import memory
from dpsim.commands.report import report
from dpsim.commands.results import results
from dpsim.commands.run import run
from dpsim.commands.scale import scale
from dpsim.commands.sweep import sweep
from dpsim.commands.topology import topology
from dpsim.commands.tune import tune
from dpsim.commands.validate import validate_app

__all__ = [
    "converge",
    "dashboard",
    "explain_app",
    "import_app",
    "layer_split",
    "memory",
    "report",
    "results",
    "run",
    "scale",
    "sweep",
    "topology",
    "tune",
    "validate_app",
]
