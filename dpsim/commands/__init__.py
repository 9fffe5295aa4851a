"""The commands of the command line, one file each, and as functions: parse, call, render.

`dpsim.cli` names them and loads one when it is asked for. Nothing else knows them.
"""

__all__: list[str] = []
