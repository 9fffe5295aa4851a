"""What each started rank runs: ``python -m validate.node CASE``, the case as JSON."""

import os
import sys

from validate.node.run import as_rank
from validate.ranks.processes import first_line

if __name__ == "__main__":
    try:
        as_rank(sys.argv[1])
    except Exception as error:
        if os.environ.get("DPSIM_DEBUG"):
            raise
        sys.exit(first_line(error))  # one line, which the launcher gives as the rank's last words
