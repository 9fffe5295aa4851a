"""Files that attack.

Every reader of files answers with a clear line, within seconds and without filling the memory.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jail import Jail
from judge import Case
from pairwise import covering

HUGE = 100_000_000
DEEP = "[" * 1_100  # deeper than Python recurses; YAML takes the square of it
DIGITS = "9" * 5_000

GOOD = "name: a\ncluster: {nodes: 2, node: dgx1-v100, gpus_per_node: 1}\nworkload: {model: resnet18, batch_per_gpu: 1}\n"
BOMB = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'x'}]" for i in range(20))


def _text(content: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(
        content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    )


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


FILES: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a device without an end": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "another's secrets": lambda path: path.symlink_to("/etc/shadow"),
    "nothing at all": lambda path: None,
    "empty": _text(""),
    "blank": _text(" \n\n\t\n"),
    "100 MB of zeros": _sparse,
    "binary": _text(bytes(range(256)) * 16),
    "only a byte order mark": _text(b"\xef\xbb\xbf"),
    "UTF-16": _text(GOOD.encode("utf-16")),
    "UTF-32": _text(GOOD.encode("utf-32")),
    "latin-1": _text("name: caf\xe9\n".encode("latin-1")),
    "half of a surrogate pair": _text('{"name": "\ud800"}'),
    "escaped half of a surrogate pair": _text(
        '{"name": "\\ud800", "layers": [{"name": "\\udfff"}], "parameters": {"\\ud800": 1}}'
    ),
    "null bytes": _text(GOOD + "\0"),
    "deep lists": _text(DEEP),
    "deep mappings": _text('{"a":' * 5_000),
    "aliases that multiply": _text(BOMB),
    "an alias of itself": _text("a: &a [*a]\n"),
    "a merge key": _text("a: &a {b: 1}\nc: {<<: *a}\n"),
    "doubled keys": _text("name: a\nname: b\n"),
    "a tag that calls": _text("name: !!python/object/apply:os.system [touch called]\n"),
    "a tag that makes an object": _text("!!python/object/new:os.system [touch called]\n"),
    "5,000 digits": _text(f'{{"name": {DIGITS}, "schema_version": {DIGITS}}}'),
    "no finite number": _text('{"name": NaN, "layers": [1e400, -Infinity]}'),
    "a long line": _text('{"name": "' + "x" * 900_000 + '"}'),
    "500 keys": _text("".join(f"k{i}: 1\n" for i in range(500))),
    "a number": _text("7"),
    "text": _text('"text"'),
    "null": _text("null"),
    "a list": _text("[]"),
    "a list of lists": _text("[[], [[]]]"),
    "an empty object": _text("{}"),
    "packed rubbish": _text(b"\x1f\x8b" + b"\x00" * 40),
    "a packed bomb": _text(gzip.compress(b"[") + 60 * gzip.compress(b" " * (HUGE // 10))),
    "a cut packed file": _text(gzip.compress(json.dumps({"runs": []}).encode())[:-6]),
    "an entity that multiplies": _text(
        '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">'
        + "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9))
        + "]><system>&j;</system>"
    ),
    "an entity of a file": _text(
        '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a SYSTEM "/etc/passwd">]><system>&a;</system>'
    ),
    "quotes without an end": _text('"' + "a,b\n" * 1000),
    "one column": _text("bytes\n1\n"),
}

# Every command or field that reads a file that users name: the files beside it, and the command.
BESIDE = GOOD.replace("model: resnet18", "model: {KEY: FILE}")
READERS: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    "run": ("x.yaml", {}, ("run", "x.yaml", "--json")),
    "check": ("x.yaml", {}, ("check", "x.yaml", "--json")),
    "sweep": ("x.yaml", {}, ("sweep", "x.yaml", "-o", "out", "--workers", "1")),
    "model profile": (
        "x.json",
        {"s.yaml": GOOD.replace("resnet18", "{profile: x.json}")},
        ("run", "s.yaml", "--json"),
    ),
    "model configuration": (
        "x.json",
        {"s.yaml": GOOD.replace("resnet18", "{config: x.json}")},
        ("run", "s.yaml", "--json"),
    ),
    "calibration": (
        "x.json",
        {"s.yaml": GOOD + "calibration: x.json\n"},
        ("run", "s.yaml", "--json"),
    ),
    "node": (
        "x.yaml",
        {"s.yaml": GOOD.replace("dgx1-v100", "x.yaml")},
        ("run", "s.yaml", "--json"),
    ),
    "graphml": (
        "x.graphml",
        {
            "s.yaml": GOOD.replace(
                "gpus_per_node: 1",
                "gpus_per_node: 1, network: {fabric: custom, graphml: x.graphml}",
            )
        },
        ("run", "s.yaml", "--json"),
    ),
    "histogram": (
        "x.csv",
        {"s.yaml": GOOD + "disturbance: {jitter: {kind: histogram, file: x.csv}}\n"},
        ("run", "s.yaml", "--json"),
    ),
    "histogram in JSON": (
        "x.json",
        {"s.yaml": GOOD + "disturbance: {jitter: {kind: histogram, file: x.json}}\n"},
        ("run", "s.yaml", "--json"),
    ),
    "import nvidia-topo": (
        "x.txt",
        {},
        ("import", "nvidia-topo", "x.txt", "--gpu", "v100", "--json"),
    ),
    "import nccl-topo": ("x.xml", {}, ("import", "nccl-topo", "x.xml", "--json")),
    "import nccl-tests": ("x.log", {}, ("import", "nccl-tests", "x.log", "--json")),
    "import nsys": ("x.sqlite", {}, ("import", "nsys", "x.sqlite", "--json")),
    "import slurm-topology": ("x.conf", {}, ("import", "slurm-topology", "x.conf", "--json")),
    "import kineto": ("x.json", {}, ("import", "kineto", "x.json", "--json")),
    "report": ("x.json", {}, ("report", "x.json", "--html", "r.html")),
    "validate reference": ("x.csv", {}, ("validate", "reference", "nccl-tests", "x.csv", "--json")),
    "validate reference, steps": (
        "x.csv",
        {},
        ("validate", "reference", "scaling", "x.csv", "--json"),
    ),
    "validate compare": ("x.json", {}, ("validate", "compare", "x.json", "--json")),
    "validate compare, packed": ("x.json.gz", {}, ("validate", "compare", "x.json.gz", "--json")),
}


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    with Jail(seconds=30) as started:
        yield started


# Ten times as large as those above and more, which takes as much longer.
LARGE: dict[str, Callable[[Path], object]] = {
    "deep lists": _text("[" * 50_000),
    "deep mappings": _text('{"a":' * 50_000),
    "5,000 keys": _text("".join(f"k{i}: 1\n" for i in range(5_000))),
}


# Often: every kind of file with every ending, and every reader.
CASES = [
    (reader, (kind, Path(name).suffix))
    for reader, (name, _, _) in READERS.items()
    for kind in FILES
]
OFTEN = {CASES[place] for place in covering(CASES, strength=1)}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "files",
    [
        "often",
        pytest.param("the others", marks=pytest.mark.wide),
        pytest.param("large", marks=pytest.mark.long),
    ],
)
def test_no_file_breaks_a_reader(jail: Jail, reader: str, files: str, tmp_path: Path) -> None:
    name, beside, command = READERS[reader]
    small = {
        kind: make
        for kind, make in FILES.items()
        if ((reader, (kind, Path(name).suffix)) in OFTEN) == (files == "often")
    }
    wrong = {}
    for number, (kind, make) in enumerate((LARGE if files == "large" else small).items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder / name)
        verdict = jail.run(Case(beside, command, folder=str(folder)))
        if verdict.what == "broken":
            wrong[kind] = verdict
        assert not (folder / "called").exists()
    assert not wrong, "\n".join(
        f"{kind}: {verdict.why} at {verdict.where}" for kind, verdict in wrong.items()
    )


PATHS = (
    "../../etc/passwd",
    "/etc/passwd",
    "/dev/zero",
    "/proc/self/mem",
    "/proc/self/environ",
    "a\\0b",
    "~",
    "/",
    "x" * 5000,
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", ["profile", "config"])
def test_paths_anywhere_give_nothing_away(jail: Jail, key: str, path: str) -> None:
    verdict = jail.run(Case({"f.yaml": GOOD.replace("resnet18", f'{{{key}: "{path}"}}')}))
    assert verdict.what == "refused", verdict
    assert "root:" not in verdict.why
