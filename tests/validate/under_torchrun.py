"""Commands under torchrun, which is started once for all tests that read what they printed.

This file is also the program of its two ranks: each carries out every command, in order.
"""

import contextlib
import sys
from pathlib import Path

from validate.ranks.launch import launch, loopback

SMALL = str(Path(__file__).parent / "node" / "small.yaml")
COMMANDS = {
    "run": ["run", SMALL, "--device", "cpu", "--backend", "gloo"],
    "microbench": [
        *("microbench", "collectives", "reduction", "-b", "64", "-e", "4K", "-f", "64"),
        *("-n", "3", "-w", "1", "--operation", "all-gather,all-to-all", "--algorithm", "all"),
    ],
}


def started(folder):
    """By command what each rank printed, as text."""
    # Its ranks are forks of it as it is of what has torch imported, which else each imports anew.
    launcher = ["torch.distributed.run", "--run-path", "--start-method", "fork"]
    # Without an address torchrun waits for name servers.
    where = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    launch(
        [sys.executable, "-m", *launcher, *where, __file__, str(folder)],
        loopback(1),
        timeout_s=200,
        preload=[
            "torch.distributed.run",
            "torch._dynamo",
            "validate.node",
            "validate.microbench.runs",
        ],
    )
    return {
        name: [(folder / f"{name}-{rank}").read_text() for rank in range(2)] for name in COMMANDS
    }


def main(folder):
    from validate.ranks.processes import joined

    # The launcher's store is there for as long as it is, with what was written the first time.
    for turn in range(2):
        with joined("gloo", "cpu", 20) as world:
            assert world.gather((turn, world.rank)) == [(turn, 0), (turn, 1)]
    for name, command in COMMANDS.items():
        output = folder / f"{name}-{world.rank}"
        with output.open("w") as stream, contextlib.redirect_stdout(stream):
            carry_out(command)


def carry_out(command):
    """As ``python -m validate`` does."""
    from dpsim.cli import main as dpsim

    sys.argv = ["dpsim", "validate", *command, "--json"]
    try:
        dpsim()
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    main(Path(sys.argv[1]))
