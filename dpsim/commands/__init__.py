"""The commands of the command line, one file each, and as functions: parse, call, render.

`dpsim.cli` lists them and loads one on demand. Nothing else uses them.

A command imports the modules that it calls inside its function, and rendering modules only when it
prints: otherwise the list of commands, every ``--help`` and ``--json`` would wait for them.
"""

__all__: list[str] = []
