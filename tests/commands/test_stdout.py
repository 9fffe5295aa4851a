"""stdout holds only the answer, whatever it is connected to."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from dpsim import cli

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "imports" / "data"
QUICK = f"{ROOT}/scenarios/quickstart.yaml --set run.steps=3 --set run.warmup=1"

# DuckDB draws its bar after two seconds.
LONG = "select sum(a.range * b.range) as s from range(100000) a, range(40000) b"

# Command lines without --json, in the order in which they are run; {..} stands for what this makes.
LINES = (
    f"run {QUICK}",
    "advise trace.json",
    "catalogue gpus",
    f"calibrate {QUICK} --plan",
    f"check {QUICK.split(maxsplit=1)[0]}",
    "collective --ranks 4 --bandwidth '1 GB/s' --latency '1 us' --algorithm ring -b 1M -e 1M",
    f"compare {QUICK} --vary strategy.sync.kind=bsp,local-sgd --html timelines.html",
    f"converge {QUICK} --set replay.steps=20 --set replay.points=5 --set cluster.nodes=2",
    f"explain scenario {QUICK}",
    f"trust {QUICK}",
    "explain collective --cluster dgx-h100 --library nccl -b 1M",
    f"calibrate {QUICK} steps.csv",
    f"goodput {ROOT}/scenarios/disturbed.yaml --days 2 --set run.steps=3",
    f"import accelerate {DATA}/accelerate_fsdp.yaml --model resnet50 --batch 8 --nnodes 2 --nproc-per-node 8",
    f"import axolotl {DATA}/axolotl.yml --nodes 1",
    f"import composer {DATA}/composer.yaml --model mpt-7b",
    f"import llama-factory {DATA}/llama_factory.yaml --nodes 1",
    f"import torchtune {DATA}/torchtune.yaml --model llama3-8b",
    f"import deepspeed {DATA}/ds_config.json --model resnet50 --nnodes 2 --nproc-per-node 8",
    f"import kineto {DATA}/cpu.kineto.json",
    f"import nccl-tests {DATA}/all-reduce-4-v100-old.log",
    f"import nccl-topo {DATA}/dgx-a100.xml",
    "import nsys report.sqlite",
    f"import nvidia-topo {DATA}/dgx1-v100.topo.txt",
    f"import slurm-topology {DATA}/slurm-tree.conf",
    f"import torchtitan {DATA}/torchtitan_llama3_8b.toml --nnodes 1 --nproc-per-node 8",
    "init --gpu V100 --nodes 2 --model resnet50 -o first.yaml",
    f"layer-split {ROOT}/scenarios/layer-split.yaml --devices 2 --micro-batches 1",
    f"memory {QUICK}",
    f"scale {QUICK} --nodes 1,2",
    "plot scale.json -o scale.html",
    "report run.json --html run.html",
    "sweep few.yaml -o out",
    "results out",
    f"results out --sql '{LONG}'",
    "scenarios",
    f"timelines {QUICK} --of overlap",
    f"topology {QUICK}",
    f"tune {QUICK} --over cluster.nodes=1,2",
    "validate doctor",
    f"validate compare {ROOT}/validate/recorded/steps.json.gz",
)
PREFIXES = [f"{line} " for line in LINES]
# Those that run ranks, or torch.
MEASURE = {
    "import torch",
    *(
        f"validate {name}"
        for name in ("backends", "calibrate", "microbench", "node", "reference", "run")
    ),
    *("validate testbed", "validate train"),
}
# In a process without a file, libraries assume an interactive session.
PROGRAM = """
import shlex, sys
from dpsim.cli import main
for line in sys.stdin.read().splitlines():
    sys.argv = ["dpsim", *shlex.split(line), "--json"]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            print("code", ended.code, "of", line, file=sys.stderr)
    print("\\0", end="", flush=True)
"""


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Runs LINES."""
    monkeypatch.syspath_prepend(str(DATA.parent))
    return lambda stdout: output(tmp_path, stdout)


def output(folder, stdout):
    """What each of LINES prints on a ``stdout`` that is a pipe, or a terminal."""
    from kineto_traces import gpu_trace, write
    from nsys_exports import Export, as_nsys

    (folder / "steps.csv").write_text(
        "step,rank,node,step_ms\n"
        + "".join(f"{at % 40},{at // 40},0,{100 + at * 7 % 11}\n" for at in range(80))
    )
    write(folder / "trace.json", gpu_trace())
    as_nsys(Export(folder / "report.sqlite"), gpu_trace()).done()
    few = "\nsweep: {parameters: {cluster.nodes: {values: [1, 2]}}}\n"
    (folder / "few.yaml").write_text((ROOT / "scenarios/quickstart.yaml").read_text() + few)
    (folder / "lines").write_text("\n".join(LINES))
    for name, line in {"run.json": LINES[0], "scale.json": f"scale {QUICK} --nodes 1,2"}.items():
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], input=line, capture_output=True, text=True, check=True
        )
        (folder / name).write_text(done.stdout.rstrip("\0"))
    with (folder / "lines").open() as lines, (folder / "errors").open("w") as stderr:
        ours, theirs = pty.openpty() if stdout == "terminal" else os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=lines, stdout=theirs, stderr=stderr, cwd=folder
        )
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 2**16)
            except OSError:  # a terminal that its last process has left
                break
            if not part:
                break
            text += part
        os.close(ours)
        process.wait()
    errors = (folder / "errors").read_text().splitlines()
    assert [line for line in errors if line.startswith(("dpsim: ", "code "))] == []
    return text.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    "stdout",
    [
        pytest.param("pipe", marks=pytest.mark.long),
        pytest.param("terminal", marks=pytest.mark.wide),
    ],
)
def test_every_commands_json_is_all_of_stdout(answers, stdout):
    for line, text in zip(LINES, answers(stdout), strict=True):
        assert kind(text), line


def kind(text):
    """That of an answer, None of what is none."""
    try:
        return json.loads(text)["kind"]
    except ValueError:
        return None


def commands(command, words=""):
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from commands(command.get_command(None, name), f"{words} {name}".strip())
    elif any("--json" in option.opts for option in command.params):
        yield words


def test_the_lines_are_those_of_every_command_with_json():
    names = set(commands(typer.main.get_command(cli.app)))
    reported = {name for name in names if any(line.startswith(f"{name} ") for line in PREFIXES)}
    assert names - reported == MEASURE, "LINES above needs a line for each command with --json"
