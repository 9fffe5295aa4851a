"""The program of each started rank: ``python -m validate.node CASE``, the case as JSON."""

import sys

from validate.node.run import as_rank
from validate.ranks.processes import leave

if __name__ == "__main__":
    try:
        as_rank(sys.argv[1])
    except Exception as error:
        leave(error)
