"""Comparison of dpsim's predictions with measurements: published tables, and real ranks.

It may use all of dpsim; dpsim uses it only in the commands that run it. `ranks` starts processes;
`collectives`, `microbench`, `emulate` and `training` run in them; `calibrate` fits and `compare`
judges; `published` needs no ranks.
"""

__all__: list[str] = []
