"""All-reduce algorithms, one file each, named for the algorithm; a new one needs only its file.

`dpsim.collectives.algorithm` takes ``ALGORITHM`` of ``halving_doubling.py`` for halving-doubling.
"""

__all__: list[str] = []
