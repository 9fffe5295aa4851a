"""How far dpsim's predictions are from measurements: published tables, and real ranks.

It may know all of dpsim; dpsim knows nothing of it but in the commands that run it. `ranks` starts
processes; `collectives`, `microbench`, `emulate` and `training` are what they do; `calibrate` fits
and `compare` judges; `published` needs no ranks.
"""

__all__: list[str] = []
