"""No knob is silent: of every field of the scenario there is one in which turning it changes an
answer. `knobs.yaml` says which; a field that stands in none of its lines fails a test.
"""

import json
import os
import tempfile
from copy import deepcopy
from pathlib import Path
from unittest.mock import patch

import pytest
from ruamel.yaml import YAML

from dpsim import simulate
from dpsim.base.errors import DpsimError
from dpsim.hardware import gpus, links, nodes, typical_gpus
from dpsim.network.libraries.nccl.description import describe
from dpsim.scenario import Scenario, fields_of, shape_of

KNOBS = YAML(typ="safe", pure=True).load(Path(__file__).with_name("knobs.yaml").read_text())
DATA = Path(__file__).parents[1] / "imports" / "data"

LINK = {"rate": "10 Gbit/s", "latency": "2 us"}
BUS = {"rate": "16 GB/s", "latency": "1 us"}
GPU = {
    "architecture": "ampere",
    "peak": {"fp32": "10 TFLOP/s", "fp16": "40 TFLOP/s"},
    "memory": "16 GB",
    "memory_bandwidth": "900 GB/s",
    "power": "250 W",
}
NODE = {
    "gpu": GPU,
    "devices": {"gpu": 2, "cpu": 1},
    "edges": [{"between": ["gpu*", "cpu0"], "link": BUS}],
    "nic_slots": ["cpu0"],
    "nic_bus": BUS,
    "nics": {"link": LINK, "count": 1},
}
PLAIN = {
    "name": "plain",
    "cluster": {"nodes": 2, "node": NODE},
    "workload": {"model": "resnet18", "batch_per_gpu": 8},
    "run": {"steps": 3, "warmup": 0},
}
# What names and counts, and where an answer repeats what was given.
ECHOES = ("provenance", "name", "calibration", "path", "seconds")
TOPOLOGY = (DATA / "cloud-t4.xml").read_text()
MODEL = """import torch


def small():
    return torch.nn.Linear(8, 4)


def large():
    return torch.nn.Linear(8, 64)


def looked_up():
    return torch.nn.Embedding(8, 4)
"""
CONFIG = {
    "model_type": "gpt2",
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
    "vocab_size": 100,
    "n_positions": 64,
}


def layers(elements):
    one = {"name": "a", "kind": "linear", "parameters": [elements], "forward_flop": 2 * elements}
    return json.dumps({"name": "m", "layers": [{**one, "backward_flop": 4 * elements}]})


def graph(rate):
    edges = "".join(
        f'<edge source="node{node}/nic0" target="s"><data key="r">{rate}</data><data key="l">1 us</data></edge>'
        for node in range(2)
    )
    return (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="r" for="edge" '
        'attr.name="rate" attr.type="string"/><key id="l" for="edge" attr.name="latency" '
        f'attr.type="string"/><graph edgedefault="undirected">{edges}</graph>'
        "</graphml>"
    )


def faults(count):
    """A log of 20 days: each third fault is on the same server."""
    days = [20 * number / count for number in range(1, count + 1)]
    rows = [f"{n % 3 and n},{day - 0.1},{day},fan\n" for n, day in enumerate(days)]
    return "node,start_day,end_day,kind\n" + "".join(rows)


FILES = {
    "faults.csv": faults(30),
    "more-faults.csv": faults(60),
    "modules.py": MODEL,
    "small.json": json.dumps(CONFIG),
    "large.json": json.dumps({**CONFIG, "n_layer": 4}),
    "small-profile.json": layers(1000),
    "large-profile.json": layers(1000000),
    "fast.graphml": graph("10 Gbit/s"),
    "slow.graphml": graph("1 Gbit/s"),
    "light.csv": "value,weight\n1,1\n1.1,1\n",
    "heavy.csv": "value,weight\n1,1\n3,1\n",
    "mine.xml": TOPOLOGY.replace("0x1eb8", "0xfffe"),
    "sm.xml": TOPOLOGY.replace("0x1eb8", "0xffff"),
}
BRIEF = {"steps": 6, "points": 2, "model": "softmax"}
RANGE = ("values", "low", "high", "log", "unit")
CATALOGUES = {"gpus": gpus, "links": links, "nodes": nodes}


def parts_of(path):
    """The steps of a path; a parameter of a sweep has dots in its own name."""
    head, found, name = path.partition("sweep.parameters.")
    key, _, below = name.rpartition(".") if name.rpartition(".")[2] in RANGE else (name, "", "")
    steps = ["sweep", "parameters", key, below] if found else head.split(".")
    return [int(step) if step.isdigit() else step for step in steps if step != ""]


def put(content, path, value):
    """``value`` at ``path``, through what is made on the way; nothing at all if it is None."""
    room = content
    *outer, last = parts_of(path)
    for step, after in zip(outer, [*outer, last][1:], strict=True):
        if isinstance(room, list):
            room.extend([None] * (step + 1 - len(room)))
            room[step] = room[step] if room[step] is not None else {}
        elif room.get(step) is None:
            room[step] = [] if isinstance(after, int) else {}
        room = room[step]
    if isinstance(room, list):
        room.extend([None] * (last + 1 - len(room)))
        room[last] = value
    elif value is None:
        room.pop(last, None)
    else:
        room[last] = value


def turns():
    for model, knobs in KNOBS.items():
        for name, message in knobs["turns"].items():
            turn = (
                message
                if isinstance(message, dict) and {"to", "record"} & set(message)
                else {"to": message}
            )
            yield model, name, turn


def scenario(knobs, turn, where, value):
    """The plain scenario with what stands there and beside, and ``value`` where it is turned."""
    content, at = deepcopy(PLAIN), turn.get("at", knobs["at"])
    beside = {**knobs.get("beside", {}), **turn.get("beside", {})}
    around = [path for path in beside if at.startswith(f"{path}.")]
    for path in around:
        put(content, path, deepcopy(beside[path]))
    if "given" in {**knobs, **turn}:
        put(content, at, deepcopy({**knobs, **turn}["given"]))
    for path in beside.keys() - around:
        put(content, path, deepcopy(beside[path]))
    if value is not ...:
        put(content, where, deepcopy(value))
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with all files that the settings name."""
    made = tmp_path_factory.mktemp("named")
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


@pytest.fixture
def place(folder, monkeypatch):
    """That folder, which is where they are looked for."""
    monkeypatch.chdir(folder)
    return folder


def run(content, place, dpsim):
    return simulate(checked(content, place)).to_json()


def checked(content, place):
    return Scenario.model_validate(content, context={"folder": place})


def requested(*command):
    """What a command answers of a scenario in JSON."""

    def answer(content, place, dpsim):
        path = place / "requested.yaml"
        path.write_text(json.dumps(content))
        code, out, err = dpsim(*(path if word == "FILE" else word for word in command), "--json")
        assert code == 0, err
        return json.loads(out)

    return answer


def swept(content, place, dpsim):
    out = Path(tempfile.mkdtemp(dir=place))
    requested("sweep", "FILE", "-o", out, "--workers", "1")(content, place, dpsim)
    return requested("results", out)(content, place, dpsim)


def owned(kind, at, answer):
    """What is answered where the entry given is one of the user's own catalogue, called mine."""

    def owning(content, place, dpsim):
        entry = content
        for step in parts_of(at):
            entry = entry[step]
        folder = place / "catalogue" / kind
        folder.mkdir(parents=True, exist_ok=True)
        lines = (
            f"aliases: [{', '.join(value)}]" if key == "aliases" else f"{key}: {json.dumps(value)}"
            for key, value in entry.items()
        )
        (folder / "mine.yaml").write_text("\n".join(lines) + "\n")
        with patch.dict(os.environ, DPSIM_CATALOGUE=str(place / "catalogue")):
            forget()
            try:
                return answer(content, place, dpsim)
            finally:
                (folder / "mine.yaml").unlink()
                forget()

    return owning


def forget():
    """Look at the folders anew; what comes with dpsim is not parsed again."""
    for catalogue in (gpus, links, nodes):
        known = {**catalogue()._members}
        known.pop("mine", None)
        catalogue.cache_clear()
        catalogue()._members.update(known)
    typical_gpus.cache_clear()


def listed(kind):
    def answer(content, place, dpsim):
        rows = requested("catalogue", kind)(content, place, dpsim)["rows"]
        found = CATALOGUES[kind]()
        names = [name for name in ("mine", "another") if name in found]
        return {"row": [row for row in rows if row["name"] == "mine"], "names": names}

    return answer


def described(content, place, dpsim):
    """What a table's words say of a machine of eight such GPUs."""
    words = {"interconnect_intra": "PCIe, two GPUs of a board", "nodes": "2", "gpus_per_node": "8"}
    return {"machine": repr(describe({"gpu": "8x mine", **words}))}


AT_GPU, AT_LINK, AT_NODE = "cluster.node.gpu", "cluster.node.nics.link", "cluster.node"
ANSWERS = {
    "run": run,
    "memory": requested("memory", "FILE"),
    "converge": requested("converge", "FILE"),
    "goodput": requested("goodput", "FILE", "--runs", "2"),
    "topology": requested("topology", "FILE"),
    "sweep": swept,
    "gpus": owned("gpus", AT_GPU, listed("gpus")),
    "links": owned("links", AT_LINK, listed("links")),
    "nodes": owned("nodes", AT_NODE, listed("nodes")),
    "import": owned(
        "gpus",
        AT_GPU,
        requested("import", "nvidia-topo", DATA / "dgx-a100.topo.txt", "--gpu", "mine"),
    ),
    "import-xml": owned("gpus", AT_GPU, requested("import", "nccl-topo", "mine.xml")),
    "import-sm": owned("gpus", AT_GPU, requested("import", "nccl-topo", "sm.xml")),
    "reference": owned("gpus", AT_GPU, described),
}


FOUND = {}  # the same scenario stands before many turns


def answered(knobs, turn, where, value, place, dpsim):
    content = scenario(knobs, turn, where, value)
    command = turn.get("command", knobs.get("command", "run"))
    if command == "converge":
        content = {"replay": BRIEF, **content}
    try:
        key = command + json.dumps(content)
        if key not in FOUND:
            FOUND[key] = ANSWERS[command](content, place, dpsim)
        found = FOUND[key]
    except DpsimError as error:
        if not turn.get("refused"):
            raise
        found = {"refused": str(error)}
    if turn.get("told") or "record" in turn:
        return {key: value for key, value in found.items() if key != "provenance"}
    return {key: value for key, value in found.items() if key not in ECHOES}


def marked(model, name, turn):
    needed = {**KNOBS[model], **turn}.get("needs")
    marks = [getattr(pytest.mark, needed)] if needed else []
    return pytest.param(model, name, turn, id=f"{model}-{name}", marks=marks)


@pytest.mark.parametrize(("model", "name", "turn"), [marked(*each) for each in turns()])
def test_turning_it_changes_an_answer(model, name, turn, place, dpsim):
    knobs = KNOBS[model]
    where = f"{turn.get('at', knobs['at'])}.{name}".lstrip(".")
    before = answered(knobs, turn, where, turn.get("since", ...), place, dpsim)
    after = answered(knobs, turn, where, turn.get("to", turn.get("record")), place, dpsim)
    changed = before != after
    assert changed == ("record" not in turn), (
        f"{where}: turning it as tests/scenario/knobs.yaml says "
        + (
            "changes an answer, though it is kept for the record"
            if changed
            else "changes no answer: give it a scenario (given, beside) or command in which it does"
        )
    )


def test_what_is_kept_for_the_record_says_so():
    found = {}
    walk(shape_of(Scenario), found)
    models = {model.__name__: model for model in found}
    for model, name, turn in turns():
        message = fields_of(models[model])[name.partition(".")[0]].description or ""
        assert ("for the record" in message) == ("record" in turn), (model, name)


def test_every_field_stands_in_the_table():
    found = {}
    walk(shape_of(Scenario), found)
    wanted = {
        (model.__name__, name)
        for model in found
        for name in fields_of(model)
        if name not in ("kind", "fabric", "schema_version")
    }
    turned = {(model, name.partition(".")[0]) for model, name, _ in turns()}
    assert turned == wanted, "tests/scenario/knobs.yaml needs a line for each field of each model"


def walk(shape, found):
    """All models that may stand in a scenario."""
    for model in shape.models():
        if model in found:
            continue
        found[model] = True
        for name in fields_of(model):
            walk(shape_of(model).below(name), found)
    for each in [shape] if len(shape.options) == 1 else shape.alternatives():
        if not each.models():
            for part in (0, ""):
                if each.below(part).options:
                    walk(each.below(part), found)
