"""``python -m validate.emulate CASES``: one rank that emulates one scenario after the other.

CASES is in JSON.
"""

import sys

from validate.emulate.ranks import as_rank

if __name__ == "__main__":
    as_rank(sys.argv[1])
