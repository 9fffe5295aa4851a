"""The program of each started rank: ``python -m validate.training METHODS``, as JSON."""

import sys

from validate.ranks.processes import leave
from validate.training.proof import as_rank

if __name__ == "__main__":
    try:
        as_rank(sys.argv[1])
    except Exception as error:
        leave(error)
