"""A program.

Prints what commands answer in JSON about the scenarios here, as one object of command to answer.

``python every_answer.py WORKERS [backwards]``: answers the numbers of LINES that stand in its
input, and a sweep into the current folder by so many processes, if any. Backwards it lists folders
the other way round. Provenance is left out, which may differ from run to run.
"""

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "scenarios"
SCENARIOS = sorted(
    path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml")
)
SHORT = "--set run.steps=3 --set run.warmup=1"
SMALL = "--set cluster.nodes=2"
TRAINED = f"--set replay.steps=20 --set replay.points=5 {SMALL} --gradients"
ALGORITHMS = (
    "strategy.aggregation.algorithm=ring,halving-doubling,hierarchical,double-binary-tree,auto"
)

# What a few steps take long for: a whole period between sites is simulated, however few are wanted
# for, with a flow for each bucket; a bound is warmed up to.
BRIEF = {
    "diloco": " --set strategy.sync.outer.every=5 --set strategy.overlap.kind=sequential",
    "ssp": " --set cluster.nodes=2",
}

# Long enough for a last digit to become milliseconds, if it may differ anywhere.
CHAOTIC = "run parameter-server-asp"

# Command lines, scenarios by name, without --json: a prediction of every scenario, and every other
# command that computes.
LINES = (
    *(f"run {name} {SHORT}{BRIEF.get(name, '')}" for name in SCENARIOS),
    CHAOTIC,
    *(
        f"explain {name} {SHORT}"
        for name in ("gossip", "layer-split", "ranking-flips", "testbed/overlap")
    ),
    *(
        f"explain {name} {SHORT} {SMALL} --set cluster.gpus_per_node=2"
        for name in ("host", "parameter-server-asp")
    ),
    f"compare quickstart {SHORT} {SMALL} --vary {ALGORITHMS} --vary strategy.sync.kind=bsp,local-sgd",
    f"compare quickstart {SHORT} {SMALL} --alternative sync.kind=ssp --by bytes",
    f"tune quickstart {SHORT} --over {ALGORITHMS} --over "
    "strategy.overlap.kind=sequential,wfbp,mg-wfbp --evaluations 8 --seed 5",
    *(
        f"converge {name} {TRAINED}"
        for name in ("quickstart", "ssp", "ad-psgd", "gossip", "powersgd", "backup")
    ),
    f"converge sma {TRAINED}",
    "scale quickstart --nodes 1,2,4 --set run.steps=3",
    "layer-split layer-split --devices 2,4 --micro-batches 1,4",
    "memory sharded",
    "collective --cluster dgx-a100 --nodes 2 --algorithm all -b 4K -e 64M -f 128 --skew 1ms "
    "--seed 3",
    *(f"catalogue {section}" for section in ("gpus", "links", "nodes", "models", "algorithms")),
)


def answer(*arguments: str) -> Any:
    """What ``dpsim ARGUMENTS --json`` prints. Raises RuntimeError where it fails."""
    from dpsim.cli import main

    sys.argv = ["dpsim", *arguments, "--json"]
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        try:
            main()
        except SystemExit as exit_:
            if exit_.code:
                raise RuntimeError(f"{arguments}: {err.getvalue()}") from None
    return without_provenance(json.loads(out.getvalue()))


def without_provenance(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_provenance(inner) for key, inner in value.items() if key != "provenance"
        }
    return [without_provenance(inner) for inner in value] if isinstance(value, list) else value


def list_backwards() -> None:
    """Hand out the entries of folders as another file system might."""
    listdir, scandir = os.listdir, os.scandir

    class Backwards(list[Any]):
        """What a ``with`` takes, too."""

        def __enter__(self) -> "Backwards":
            return self

        def __exit__(self, *error: object) -> None:
            pass

    os.listdir = lambda *place: sorted(listdir(*place), reverse=True)
    os.scandir = lambda *place: Backwards(
        sorted(scandir(*place), key=lambda entry: entry.name, reverse=True)
    )


def main(workers: str, order: str = "") -> None:
    if order == "backwards":
        list_backwards()
    found = {}
    for number in json.load(sys.stdin):
        what, name, *options = LINES[number].split()
        named = f"{FOLDER / name}.yaml" if name in SCENARIOS else name
        found[LINES[number]] = answer(what, named, *options)
    if int(workers):
        inputs = [str(FOLDER / name) for name in ("sweep.yaml", "testbed")]
        few = ("--set", "run.steps=3")
        found["sweep"] = answer("sweep", *inputs, "-o", "swept", "--workers", workers, *few)
        found["results"] = answer("results", "swept")
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
