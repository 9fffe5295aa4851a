"""The commands of the command line, one file each, and as functions: parse, call, render.

`dpsim.cli` lists them and loads one on demand. Nothing else uses them.

Modules that a command calls are imported inside its function, and those that draw its answer only
where it is printed: otherwise the list of commands, every ``--help`` and ``--json`` would wait for
them.
"""

__all__: list[str] = []
