"""``python -m validate ...`` is ``dpsim validate ...``, for launchers.

For example ``torchrun --nproc-per-node 4 -m validate microbench``.
"""

import sys

from dpsim.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "validate")
    main()
