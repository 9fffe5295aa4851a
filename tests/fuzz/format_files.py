"""A valid file of each format that dpsim reads, and ways to spoil one."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from hostile_text import SNIPPETS
from odd_values import ODD

ROOT = Path(__file__).parents[2]
IMPORTED = ROOT / "tests" / "imports" / "data"
PUBLISHED = ROOT / "validate" / "published" / "data"
ROWS = 6  # of a published table
SCENARIO = """name: a
cluster: {nodes: 2, node: dgx1-v100, gpus_per_node: 2}
workload: {model: resnet18, batch_per_gpu: 4}
run: {steps: 2, warmup: 1}
disturbance: {jitter: {kind: gamma}, crashes: {mtbf: 1000 h}}
replay: {steps: 4, points: 2, model: softmax}
"""
SWEEP = SCENARIO + "sweep: {parameters: {run.seed: {values: [0, 1]}}}\n"
TABLES = {
    "nccl-tests": "nccl_tests",
    "nccl-single-node": "nccl_single_node",
    "single-gpu": "single_gpu",
    "adaptdl": "adaptdl_steptime",
    "vtrain": "vtrain_steptime",
    "vtrain-allreduce": "vtrain_allreduce",
    "scaling": "scaling",
    "overlap": "scaling",
    "imagenet": "imagenet_records",
    "llm": "llm_fsdp",
    "mlperf": "mlperf_training",
    "steps": "steps_2",
}
IMPORTS = {
    "kineto": ("trace.json",),
    "nccl-tests": ("all-reduce-2x8-a100.log", "all-reduce-4-v100-old.log"),
    "nccl-topo": ("dgx-a100.xml", "dgx1-v100.xml", "hgx-h100.xml", "cloud-t4.xml"),
    "nvidia-topo": ("dgx-a100.topo.txt", "dgx1-p100.topo.txt", "pcie-8gpu.topo.txt"),
    "deepspeed": ("ds_config.json",),
    "axolotl": ("axolotl.yml",),
    "llama-factory": ("llama_factory.yaml",),
    "torchtune": ("torchtune.yaml",),
    "composer": ("composer.yaml",),
    "accelerate": ("accelerate_fsdp.yaml", "accelerate_hsdp.yaml", "trainer_fsdp.yaml"),
    "slurm-topology": ("slurm-tree.conf", "slurm-blocks.conf", "slurm-topology.yaml"),
    "torchtitan": ("torchtitan_llama3_8b.toml", "torchtitan_deepseek_v3_16b.toml"),
}
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "max_position_embeddings": 64,
}
STEPS = "step_ms,rank,node\n" + "".join(
    f"{100 + 3 * ((7 * step + rank) % 5)},{rank},{rank // 2}\n"
    for step in range(20)
    for rank in range(4)
)
MEASURED = (
    "cluster.nodes,workload.batch_per_gpu,step_time_ms,exposed_ms,held_out\n"
    "1,4,100,,\n2,4,150,30,\n2,8,200,,yes\n"
)
LOG = "".join(
    f" iteration {step:8d}/ 99 | elapsed time per iteration (ms): {100 + step % 7:.1f} |\n"
    for step in range(1, 40)
)
METRICS = "epoch,step,train/time\n" + "".join(
    f"0,{step},{3 + step * 0.1}\n" for step in range(4, 60, 5)
)
RUNS = {
    "kind": "runs",
    "runs": [
        {
            "kind": "collective",
            "name": f"ring {size}",
            "setting": f"{size}",
            "case": {"operation": "all-reduce", "algorithm": "ring", "bytes": size, "hosts": 2},
            "measured_s": [0.001, 0.0012],
            "predicted_s": 0.0011,
        }
        for size in (1000, 1000000)
    ],
}


@cache
def published(name: str) -> str:
    """The first rows of a table."""
    with (PUBLISHED / f"{name}.csv").open() as file:
        return "".join(file.readline() for _ in range(ROWS))


@cache
def imported(name: str) -> str:
    """The text of a file that another tool wrote."""
    if name == "trace.json":
        content = json.loads((IMPORTED / "cpu.kineto.json").read_text())
        return json.dumps({**content, "traceEvents": content["traceEvents"][:200]})
    return (IMPORTED / name).read_text()


@cache
def profile() -> str:
    """A calibration profile that comes with dpsim."""
    return (ROOT / "validate" / "profiles" / "testbed.json").read_text()


def spoiled(random: Random, text: str) -> str:
    """A text changed in one to three places, as what it is or letter by letter."""
    for _ in range(random.choice((1, 1, 2, 3))):
        text = random.choice(CHANGES)(random, text)
    return text


def _letters(random: Random, text: str) -> str:
    start, length = random.randrange(len(text) + 1), random.choice((0, 0, 1, 2, 8, 200))
    return text[:start] + random.choice(SNIPPETS) + text[start + length :]


def _cut(random: Random, text: str) -> str:
    return text[: random.randrange(len(text) + 1)]


def _lines(random: Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    place, other = random.randrange(len(lines)), random.choice(lines)
    lines[place : place + 1] = random.choice(
        ([], [lines[place]] * 2, [other], [other, lines[place]])
    )
    return "".join(lines)


def _number(random: Random, text: str) -> str:
    """Another number, or none, in place of one."""
    starts = [place for place, sign in enumerate(text) if sign.isdigit()]
    if not starts:
        return text
    start = end = random.choice(starts)
    while end < len(text) and (text[end].isdigit() or text[end] in ".e"):
        end += 1
    odd = random.choice(
        ("-1", "0", "1e308", "1e400", "nan", "-inf", "9" * 400, "", "x", "1e-320", "2")
    )
    return text[:start] + odd + text[end:]


def _structure(random: Random, text: str) -> str:
    """Of JSON: something left out, or something else in its place."""
    try:
        content = json.loads(text)
    except ValueError:
        return _cell(random, text)
    ways = list(_places(content, ()))
    if not ways:
        return text
    *outer, last = random.choice(ways)
    room = content
    for key in outer:
        room = room[key]
    if random.random() < 0.3:
        del room[last]
    else:
        room[last] = random.choice(ODD)
    return json.dumps(content)


def _places(content: Any, way: tuple[Any, ...]) -> Any:
    inside = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content[:50])
        if isinstance(content, list)
        else ()
    )
    for key, inner in inside:
        yield (*way, key)
        if len(way) < 6:
            yield from _places(inner, (*way, key))


def _cell(random: Random, text: str) -> str:
    """Of a table: another cell."""
    try:
        rows = list(csv.reader(io.StringIO(text.replace("\x00", ""), newline="")))
    except csv.Error:
        return _letters(random, text)
    full = [row for row in rows if row]
    if not full:
        return text
    row = random.choice(full)
    odd = (*("", "x", "-1", "0", "nan", "1e400", "9" * 50, "1.5", "None"), random.choice(row))
    row[random.randrange(len(row))] = random.choice(odd)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


CHANGES: tuple[Callable[[Random, str], str], ...] = (
    _letters,
    _cut,
    _lines,
    _number,
    _number,
    _structure,
    _structure,
    _structure,
)
