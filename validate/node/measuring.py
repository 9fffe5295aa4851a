"""The ranks of `validate.node.plan_runner`: ``python -m validate.node.measuring ORDER``."""

import sys

from validate.node.items import as_rank
from validate.ranks.processes import leave

if __name__ == "__main__":
    try:
        as_rank(sys.argv[1])
    except Exception as error:
        leave(error)
