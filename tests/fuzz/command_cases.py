"""What is tried of the command line: drawn arguments, spoiled files of every format, spoiled
answers, and files that change between commands.
"""

from __future__ import annotations

import json
from functools import cache
from random import Random

import format_files as files
from command_line import ON_RANKS, commands, drawn
from format_files import spoiled
from judge import Case, Step

OF_ANSWERS = {
    "run": ("run", "f.yaml"),
    "compare": ("compare", "f.yaml", "--vary", "cluster.nodes=1,2"),
    "scale": ("scale", "f.yaml", "--nodes", "1,2"),
    "collective": ("collective", "--ranks", "4", "--bandwidth", "1 GB/s", "-e", "4M"),
    "explain": ("explain", "f.yaml"),
    "memory": ("memory", "f.yaml"),
}
CALIBRATE = ("calibrate", "f.yaml", "x.csv", "--json")
SWEPT = ("sweep", "s.yaml", "-o", "out", "--workers", "1")


def case(random: Random) -> Case:
    """One case."""
    kinds = (called, read, answered, resumed, changed)
    (kind,) = random.choices(kinds, (8, 8, 2, 1, 1))
    return kind(random)


def called(random: Random) -> Case:
    """Any command with any arguments, beside a scenario that is right."""
    command = random.choice(commands())
    file = "none.yaml" if command.words in ON_RANKS else random.choice(("f.yaml", "f.yaml", "x"))
    arguments = drawn(random, command, file)
    if command.words in ON_RANKS:
        arguments = [*arguments, "--no-such-option"]
    if any("\x00" in each or "\ud800" in each for each in arguments):
        arguments = ["--help"]
    content = {"f.yaml": files.SCENARIO, "x": spoiled(random, files.SCENARIO)}
    return Case(content, (*command.words, *arguments))


def read(random: Random) -> Case:
    """A spoiled file of a format that some command reads."""
    name, text, command, beside = random.choice(readers())
    # Some fit constants anew, or train to a target, whatever the rows say.
    rarely = 0.95 if command[2] == "imagenet" else 0.5 if command[1] == "reference" else 0.0
    if random.random() < rarely:
        return read(random)
    return Case({**beside, name: spoiled(random, text)}, command)


@cache
def readers() -> tuple[tuple[str, str, tuple[str, ...], dict[str, str]], ...]:
    """A valid file of each format with its name, the command that reads it, and files beside."""
    found: list[tuple[str, str, tuple[str, ...], dict[str, str]]] = []
    for kind, names in files.IMPORTS.items():
        for name in names:
            more = ("--gpu", "A100") if kind == "nvidia-topo" else ()
            found.append((name, files.imported(name), ("import", kind, name, *more, "--json"), {}))
    for kind, table in files.TABLES.items():
        command = ("validate", "reference", kind, "x.csv", "--json")
        found.append(("x.csv", files.published(table), command, {}))
    runs = json.dumps(files.RUNS)
    found += [
        ("x.json", runs, ("validate", "compare", "x.json", "--json"), {}),
        ("x.csv", files.STEPS, CALIBRATE, {"f.yaml": files.SCENARIO}),
        ("x.csv", files.MEASURED, CALIBRATE, {"f.yaml": files.SCENARIO}),
        (
            "x.log",
            files.LOG,
            CALIBRATE,
            {"f.yaml": files.SCENARIO, "x.csv": "cluster.nodes,log\n1,x.log\n"},
        ),
        (
            "metrics.csv",
            files.METRICS,
            CALIBRATE,
            {"f.yaml": files.SCENARIO, "x.csv": "cluster.nodes,log\n1,metrics.csv\n"},
        ),
        (
            "x.json",
            files.imported("trace.json"),
            CALIBRATE,
            {"f.yaml": files.SCENARIO, "x.csv": "cluster.nodes,trace\n1,x.json\n"},
        ),
        (
            "x.json",
            files.imported("trace.json"),
            ("import", "kineto", ".", "--json"),
            {"y.json": files.imported("trace.json")},
        ),
        ("x.json", files.imported("trace.json"), ("advise", "x.json", "--json"), {}),
    ]
    run = ("run", "f.yaml", "--json")
    base = files.SCENARIO
    for name, text, old, new in (
        ("x.json", json.dumps(files.CONFIG), "model: resnet18", "model: {config: x.json}"),
        ("x.json", files.profile(), "replay:", "calibration: x.json\nreplay:"),
        ("x.csv", "factor\n1\n1.2\n1\n", "kind: gamma", "kind: histogram, file: x.csv"),
    ):
        found.append((name, text, run, {"f.yaml": base.replace(old, new)}))
    return tuple(found)


def answered(random: Random) -> Case:
    """A page of an answer that was spoiled, and of a folder of results."""
    kind = random.choice(list(OF_ANSWERS))
    first = Step({"f.yaml": files.SCENARIO}, (*OF_ANSWERS[kind], "-o", "a.json"))
    last = random.choice((("report", "a.json", "--html", "a.html"), ("plot", "a.json", "--json")))
    return Case({}, last, before=(first, Step({}, spoil="a.json", seed=random.getrandbits(32))))


def resumed(random: Random) -> Case:
    """A sweep whose folder was spoiled, queried or resumed."""
    first = Step({"s.yaml": files.SWEEP}, SWEPT)
    place = random.choice(("out/manifest.json", "out/*.parquet", "out/rows.log"))
    last = random.choice(
        (
            (*SWEPT, "--resume"),
            ("results", "out", "--json"),
            ("report", "out", "--html", "a.html"),
        )
    )
    return Case({}, last, before=(first, Step({}, spoil=place, seed=random.getrandbits(32))))


def changed(random: Random) -> Case:
    """A file that a scenario names changes, goes, or becomes something else between commands."""
    name, text, command, beside = random.choice([each for each in readers() if each[3]])
    first = Step({**beside, name: text}, command)
    then = random.choice((spoiled(random, text), "", text + "\n"))
    again = Step({name: then}, command)
    return Case({name: text}, command, before=(first, again))
