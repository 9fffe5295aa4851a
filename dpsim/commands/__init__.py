"""The commands of the command line, one file each, and as functions: parse, call, render.

`dpsim.cli` names them and loads one when it is asked for. Nothing else knows them.

What a command calls is imported inside its function, and what draws its answer only where that is
printed: the list of commands, every ``--help`` and ``--json`` would wait for it otherwise.
"""

__all__: list[str] = []
