"""The commands of the command line, one file each; `dpsim.cli` puts them together."""

from dpsim.commands.explain import explain_app
from dpsim.commands.imports import import_app
from dpsim.commands.memory import memory
from dpsim.commands.topology import topology
from dpsim.commands.validate import validate_app

__all__ = ["explain_app", "import_app", "memory", "topology", "validate_app"]
