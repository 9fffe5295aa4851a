"""Command lines drawn from the program's own tree of commands: what is valid, and what is not.

A new command or option is tried by being there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import typer
from hostile_cases import override
from hostile_text import SNIPPETS

from dpsim import cli

# They serve, or take the machine: what is tried of them is how they read their arguments.
NEVER_ENDING = {("app",)}
ON_RANKS = {
    ("validate", name)
    for name in ("backends", "calibrate", "microbench", "node", "run", "testbed", "train")
}
OF_ALL = ("--help", "--quiet", "--verbose", "--json", "--csv", "--no-code", "-v", "-q")

TEXTS: dict[str, tuple[str, ...]] = {
    "--vary": ("strategy.sync.kind=bsp,ssp", "cluster.nodes=1,2", "run.seed=0,1"),
    "--over": ("strategy.overlap.kind=wfbp,buckets", "cluster.nodes=1,2"),
    "--sql": ("select * from results", "describe results", "select 1", "drop table results"),
    "--nodes": ("1,2", "1", "2"),
    "--devices": ("2", "1,2,4"),
    "--micro-batches": ("1,4", "1"),
    "--algorithm": ("ring", "all", "ring,tree", "auto"),
    "--operation": ("all-reduce", "all-gather", "broadcast"),
    "--library": ("ideal", "nccl", "gloo", "mpi"),
    "--begin": ("8", "4K", "1M", "1 MB"),
    "--end": ("4K", "1M", "16M"),
    "--bandwidth": ("50 GB/s", "1 Gbit/s"),
    "--latency": ("500 ns", "1 ms"),
    "--overhead": ("1 us", "0 s"),
    "--skew": ("1 ms",),
    "--cluster": ("dgx-a100", "f.yaml", "dgx1-v100"),
    "--model": ("resnet18", "llama3-8b", "gpt2"),
    "--node": ("dgx-a100", "dgx1-v100"),
    "--gpu": ("A100", "v100", "h100-sxm"),
    "--nic": ("HDR", "25GbE"),
    "--tolerance": ("10%", "0.1"),
    "--network-model": ("auto", "rounds", "flows", "closed-form"),
    "--objective": ("throughput", "step-time", "cost"),
    "--regime": ("specification", "calibrated"),
    "--dask": ("tcp://127.0.0.1:9",),
    "--collective-bytes": ("100MB", "1 MB"),
    "--input": ("8", "3,8,8"),
    "--dtype": ("float32", "int64"),
    "--by": ("workers", "batch", "nodes"),
}
ODD_TEXTS = (
    *("", " ", "-", "--", "-1", "0", "1e999", "nan", "inf", "0x10", "1,,2", ",", "=", "a=b=c"),
    *(
        "x" * 5000,
        "9" * 400,
        "é" * 300,
        "\x1b[31m",
        "\u202e",
        "😀",
        "../..",
        "/dev/null",
        "\n",
        "\t",
    ),
    *(
        "select * from read_csv('/etc/passwd')",
        "'; drop table results; --",
        "{}",
        "[1",
        "%s",
        "{0}",
    ),
)


@dataclass(frozen=True)
class Command:
    """A command: the words that call it, and what click knows of its arguments and options."""

    words: tuple[str, ...]
    params: tuple[Any, ...]


@cache
def commands() -> tuple[Command, ...]:
    """All commands that end by themselves."""
    root = typer.main.get_command(cli.app)
    return tuple(each for each in _below(root, ()) if each.words not in NEVER_ENDING)


def _below(command: Any, words: tuple[str, ...]) -> Iterator[Command]:
    if not hasattr(command, "list_commands"):
        yield Command(words, tuple(command.params))
        return
    for name in command.list_commands(None):
        yield from _below(command.get_command(None, name), (*words, name))


def drawn(random: Random, command: Command, file: str) -> list[str]:
    """Arguments of a command: its own, and some options; ``file`` where it takes one."""
    given: list[str] = []
    for param in command.params:
        is_argument = param.param_type_name == "argument"
        if is_argument:
            if param.required or random.random() < 0.3:
                given += [value(random, param, file) for _ in range(random.choice((1, 1, 1, 2)))][
                    : None if param.nargs == -1 else 1
                ]
        elif param.required or random.random() < 0.12:
            given += option(random, param, file)
    if random.random() < 0.1:
        given.insert(random.randrange(len(given) + 1), random.choice((*OF_ALL, "--none", "-x")))
    if random.random() < 0.05 and given:
        del given[random.randrange(len(given))]
    return given


def option(random: Random, param: Any, file: str) -> list[str]:
    """An option with its value, if it takes one."""
    name = random.choice((*param.opts, *param.secondary_opts))
    return [name] if param.is_flag else [name, value(random, param, file)]


def value(random: Random, param: Any, file: str) -> str:
    """A value of the required kind, or one that is not."""
    if random.random() < 0.12:
        return random.choice((*ODD_TEXTS, *SNIPPETS))
    names, kind = set(param.opts), repr(param.type_descriptor)
    if "--set" in names:
        return override(random)
    for name in names & TEXTS.keys():
        if random.random() < 0.8:
            return random.choice(TEXTS[name])
    if "Path" in kind:
        return output(random) if param.param_type_name == "option" else file
    if "int" in kind.lower() or "float" in kind.lower():
        return number(random, param)
    return file if random.random() < 0.5 else random.choice(("ring", "all", "gpus", "1", "auto"))


def output(random: Random) -> str:
    """Where an answer may go, or may not."""
    places = ("out.json", "out.html", "f.yaml", "/dev/null", ".", "none/out", "", "o" * 300, "é ü")
    return random.choice(("out.json", "out.html", *places))


def number(random: Random, param: Any) -> str:
    """A small number, an end of the range, or one past it."""
    ends = [end + step for end in (param.min, param.max) if end is not None for step in (-1, 0, 1)]
    return str(random.choice([1, 2, 3, 1, 2, *ends, -1, 2**31, 2**63, 10**30, 0.5]))
