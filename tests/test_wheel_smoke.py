"""The wheel in an empty environment of each Python there is: one line of every command.

``DPSIM_PYTHONS`` names more interpreters, apart by colons. Extras are not installed: a command that
needs one says which, and how to install it.
"""

import os
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "imports" / "data"
TABLE = ROOT / "validate" / "published" / "data" / "nccl_single_node.csv"
PYTHONS = [sys.executable, "python3.11", "python3.12", "python3.13", "python3.14"]
PYTHONS += os.environ.get("DPSIM_PYTHONS", "").split(":")

# In this order: some read what others have written.
LINES = """
init --gpu A100 --nodes 2 -o first.yaml
check first.yaml
run first.yaml --json -o run.json
run first.yaml --html run-page.html --trace trace.json
compare first.yaml --vary strategy.overlap.kind=sequential,buckets --html timelines.html
scale first.yaml --nodes 1,2,4 --csv
sweep swept.yaml -o swept --workers 1
results swept --sql "select count(*) from results"
plot run.json -o run.html
report run.json --html report.html
collective --ranks 8 --bandwidth "100 Gbit/s" -e 64M
memory first.yaml
goodput shipped.yaml --days 20
calibrate first.yaml steps.csv -o own.json --disturbance jitter.yaml
topology first.yaml
converge first.yaml --set replay.model=softmax --set run.steps=20
timelines first.yaml --html timelines.html
layer-split layers.yaml --devices 2 --micro-batches 4
scenarios
catalogue gpus
schema
trust first.yaml
explain scenario first.yaml
explain first.yaml
explain collective --cluster dgx-h100 -b 64M
import nvidia-topo dgx-a100.topo.txt -o node.yaml --gpu A100 --nic HDR
import nccl-topo hgx-h100.xml -o hgx.yaml
import nccl-tests all-reduce-2x8-a100.log -o profile.json
import kineto cpu.kineto.json -o layers.json
import kineto traces -o layers.json --disturbance jitter.yaml
import nsys report.sqlite -o layers.json
import slurm-topology slurm-tree.conf -o slurm.yaml
import deepspeed ds_config.json --model llama3-8b --nnodes 2 -o deepspeed.yaml
import accelerate accelerate_fsdp.yaml --model llama3-8b --batch 2 -o accelerate.yaml
import axolotl axolotl.yml -o axolotl.yaml
import llama-factory llama_factory.yaml -o llama_factory.scenario.yaml
import torchtune torchtune.yaml --model llama3-8b -o torchtune.scenario.yaml
import composer composer.yaml --model mpt-7b -o composer.scenario.yaml
import torchtitan torchtitan_llama3_8b.toml --nnodes 8 --nproc-per-node 8 -o torchtitan.yaml
advise step.json
validate reference nccl-single-node table.csv
validate compare recorded
tune first.yaml -o best.yaml
"""
# Commands whose extra is missing here, and the extra.
NEED_MORE = {
    "app": "app",
    "plot run.json -o run.png": "plot",
    "import torch some.models:build --input 3,8,8 -o torch.json": "validate",
    "validate run first.yaml --device cpu": "validate",
    "validate doctor": "validate",
    "validate node --device cpu -o node.json": "validate",
    "validate microbench products": "validate",
    "validate backends": "validate",
    "validate train allreduce": "validate",
}

pytestmark = pytest.mark.long


@cache
def interpreters():
    """By name of `PYTHONS` each Python's path, once a version."""
    by_version = {}
    for name in PYTHONS:
        path = shutil.which(name) if name else None
        requested = "import sys; print(*sys.version_info[:2])"
        if path is None:
            continue
        # A manager's stand-in for a version that is not chosen is there, and fails.
        reported = subprocess.run(
            [path, "-c", requested], capture_output=True, text=True, check=False
        )
        if reported.returncode == 0:
            by_version.setdefault(reported.stdout.strip(), (name, path))
    return dict(by_version.values())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    (found,) = folder.glob("dpsim_train-*.whl")
    return found


@pytest.fixture
def typed(wheel, tmp_path, request):
    """Types a line after ``dpsim``; answers exit code and output."""
    if request.param not in interpreters():
        pytest.skip("there is no such Python here, or its version is tried by another name")
    environment = tmp_path / "environment"
    subprocess.run([interpreters()[request.param], "-m", "venv", environment], check=True)
    pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", "-c", ROOT / "constraints.txt", wheel], check=True)
    work = tmp_path / "work"
    work.mkdir()
    surroundings = {**os.environ, "PYTHONPATH": "", "HOME": str(tmp_path)}

    def carry_out(line):
        return subprocess.run(
            [environment / "bin" / "dpsim", *shlex.split(line)],
            cwd=work,
            env=surroundings,
            capture_output=True,
            text=True,
            check=False,
        )

    carry_out.work = work
    return carry_out


def supplied(typed, monkeypatch):
    """The files that lines read."""
    monkeypatch.syspath_prepend(FIXTURES.parent)
    from kineto_traces import gpu_trace, write
    from nsys_exports import Export, as_nsys

    for file in FIXTURES.iterdir():
        if file.is_file():
            shutil.copy(file, typed.work)
    shutil.copy(TABLE, typed.work / "table.csv")
    recorded = ROOT / "validate" / "recorded" / "amd-epyc-4-cores"
    shutil.copytree(recorded, typed.work / "recorded")
    for name, own in (("disturbed", "shipped.yaml"), ("layer-split", "layers.yaml")):
        typed(f"scenarios {name} -o {own}").check_returncode()
    typed("init --gpu A100 --nodes 2 -o swept.yaml").check_returncode()
    with (typed.work / "swept.yaml").open("a") as file:
        file.write("sweep: {parameters: {cluster.nodes: {values: [2, 4]}}}\n")
    write(typed.work / "step.json", gpu_trace())
    (typed.work / "traces").mkdir()
    for rank in range(2):
        write(typed.work / "traces" / f"rank{rank}.json", gpu_trace())
    as_nsys(Export(typed.work / "report.sqlite"), gpu_trace()).done()
    steps = [f"{step},{0.1 + step % 3 / 100}" for step in range(100)]
    (typed.work / "steps.csv").write_text("\n".join(["step,step_s", *steps]) + "\n")


def test_the_published_tables_that_the_dashboard_shows_are_in_the_wheel(wheel):
    data = "validate/published/data/"
    found = [name for name in ZipFile(wheel).namelist() if name.startswith(data)]
    assert found == [f"{data}convergence.csv", f"{data}imagenet_records.csv"]


@pytest.mark.parametrize("typed", PYTHONS, indirect=True)
def test_every_command_of_the_installed_wheel(typed, monkeypatch):
    supplied(typed, monkeypatch)
    failed = []
    for line in LINES.strip().splitlines():
        done = typed(line)
        if done.returncode:
            failed.append(f"dpsim {line}\n{done.stdout[-500:]}\n{done.stderr[-2000:]}")
    for line, extra in NEED_MORE.items():
        done = typed(line)
        reported = f"[{extra}]" in done.stderr and "Traceback" not in done.stderr
        if done.returncode not in (1, 2) or not reported:
            failed.append(f"dpsim {line}\n{done.stderr}")
    assert not failed, "\n".join(failed)


def test_no_command_is_without_a_line(dpsim, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests" / "commands")
    from test_cli import commands

    typed = [shlex.split(line) for line in (*LINES.strip().splitlines(), *NEED_MORE)]
    missing = []
    for word in commands(dpsim("--help")[1]):
        below = commands(dpsim(word, "--help")[1])
        missing += [
            f"{word} {under}".strip()
            for under in below or [""]
            if not any(
                words[: 1 + bool(under)] == [word, under][: 1 + bool(under)] for words in typed
            )
        ]
    assert missing == ["validate calibrate", "validate testbed"], "those need root and minutes"
