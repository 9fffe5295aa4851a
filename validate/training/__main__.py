"""What each started rank runs: ``python -m validate.training METHODS``, as JSON."""

import os
import sys

from validate.ranks.processes import first_line
from validate.training.proof import as_rank

if __name__ == "__main__":
    try:
        as_rank(sys.argv[1])
    except Exception as error:
        if os.environ.get("DPSIM_DEBUG"):
            raise
        sys.exit(first_line(error))  # one line, which the launcher gives as the rank's last words
