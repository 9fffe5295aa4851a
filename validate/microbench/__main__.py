"""The program of each started rank: ``python -m validate.microbench SETTINGS``, in JSON."""

import sys

from validate.microbench.runs import as_rank
from validate.microbench.settings import Settings
from validate.ranks.processes import leave

if __name__ == "__main__":
    try:
        as_rank(Settings.model_validate_json(sys.argv[1]))
    except Exception as error:
        leave(error)
