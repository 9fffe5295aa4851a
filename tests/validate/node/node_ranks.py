"""What each rank of a test's run does: one scenario after another, and its rows to a file."""

import json
import sys
from pathlib import Path

from validate.emulate import Case
from validate.node.program import carry_out
from validate.ranks.launch import report_connected
from validate.ranks.processes import joined


def main(folder, file, cases):
    rows = {}
    with joined("gloo", "cpu") as world:
        report_connected()
        for name, (sets, compute) in cases.items():
            rows[name] = carry_out(Case(file, tuple(sets)).job(), world, compute)
    (folder / f"rank-{world.rank}").write_text(json.dumps(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
