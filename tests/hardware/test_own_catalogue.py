"""A user's own hardware: found wherever dpsim's is, with a plain error where it is broken."""

import json
import subprocess
import sys

import pytest

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.hardware import add_entry, gpu_named_in, gpus, links, nodes
from dpsim.hardware.gpu import typical_gpus
from dpsim.scenario import Scenario

GPU = """\
aliases: [Mine, MY 1]
description: A card of one's own.
architecture: hopper
peak: {fp32: 50 TFLOP/s, bf16: 500 TFLOP/s}
memory: 64 GB
memory_bandwidth: 2 TB/s
"""
LINK = "rate: 300 Gbit/s\nlatency: 2 us\n"
NODE = """\
description: Two of them.
gpu: my-gpu
devices: {gpu: 2, cpu: 1}
edges: [{between: ["gpu*", cpu0], link: pcie5-x16}]
nic_slots: [cpu0]
nic_bus: pcie5-x16
nics: {link: my-link, count: 1}
"""
CATALOGUES = (gpus, links, nodes, typical_gpus)


def forget():
    for catalogue in CATALOGUES:
        catalogue.cache_clear()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An own catalogue with a GPU, a link and a node."""
    folder = tmp_path / "catalogue"
    for kind, name, text in (
        ("gpus", "my-gpu", GPU),
        ("links", "my-link", LINK),
        ("nodes", "my-node", NODE),
    ):
        (folder / kind).mkdir(parents=True)
        (folder / kind / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("DPSIM_CATALOGUE", str(folder))
    forget()
    yield folder
    forget()


@pytest.fixture
def run(dpsim, monkeypatch):
    """Runs a command that knows only what lies in the folder: code, stdout, stderr."""

    def call(*arguments, folder=""):
        monkeypatch.setenv("DPSIM_CATALOGUE", str(folder))
        forget()
        return dpsim(*arguments)

    yield call
    forget()


def test_own_entries_are_found_by_name_alias_and_in_texts(own):
    assert gpus()["My GPU".replace(" ", "-")].memory.value == 64e9
    assert gpus()["mine"] is gpus()["my-gpu"]
    assert "my-gpu" in list(gpus())
    assert gpu_named_in("8 x MY 1 in a box").name == "my-gpu"
    assert nodes()["my-node"].nics.link.rate.value == pytest.approx(37.5e9)


def test_a_machine_s_name_beside_its_gpu_is_not_another_gpu_s(own):
    """Google's a2 machines have A100s; NVIDIA makes an A2."""
    (own / "gpus" / "a2.yaml").write_text(
        GPU.replace("Mine, MY 1", "NVIDIA A2").replace("2 TB/s", "200 GB/s")
    )
    forget()
    assert gpu_named_in("A100 (a2-highgpu-1g)").name == "a100-sxm-40gb"
    assert gpu_named_in("8 x NVIDIA A2").name == "a2"


def test_an_own_entry_stands_before_dpsim_s(own):
    (own / "gpus" / "v100-sxm2-16gb.yaml").write_text(GPU.replace("64 GB", "17 GB"))
    forget()
    assert gpus()["V100"].memory.value == 17e9
    assert nodes()["dgx1-v100"].gpu.memory.value == 17e9


def test_a_scenario_takes_them(own):
    scenario = Scenario.model_validate(
        {
            "name": "own",
            "cluster": {"nodes": 2, "node": "my-node"},
            "workload": {"model": "resnet18", "batch_per_gpu": 8},
        }
    )
    assert scenario.cluster.accelerator.name == "my-gpu"


def test_unknown_names_suggest_them(own):
    with pytest.raises(UnknownNameError, match=r"did you mean 'my-gpu'\?"):
        gpus()["my-gqu"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "must be a readable gpu file, but it is not a YAML mapping"),
        (GPU.replace("memory: 64 GB\n", ""), "memory: is missing"),
        (GPU.replace("64 GB", "many"), "memory.value: "),
        (GPU + "colour: red\n", "colour: "),
        ("\x00", "must be a readable gpu file"),
    ],
)
def test_a_broken_file_is_reported_with_its_path_and_affects_no_other(own, text, message):
    path = own / "gpus" / "my-gpu.yaml"
    path.write_text(text)
    forget()
    assert gpus()["v100"].name == "v100-sxm2-16gb"
    with pytest.raises(DpsimError) as caught:
        gpus()["my-gpu"]
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_named_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setenv("DPSIM_CATALOGUE", str(tmp_path / "none"))
    forget()
    with pytest.raises(DpsimError, match=r"^DPSIM_CATALOGUE: must be a folder with gpus, links"):
        gpus()["v100"]
    monkeypatch.setenv("DPSIM_CATALOGUE", "")
    forget()
    assert "v100" in gpus()


def test_the_folder_is_in_the_settings_of_the_user_unless_named(tmp_path, monkeypatch):
    from dpsim.hardware.catalogue import own_folder

    monkeypatch.delenv("DPSIM_CATALOGUE")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert own_folder() == tmp_path / ".config" / "dpsim" / "catalogue"
    forget()
    assert "v100" in gpus()  # nobody need have such a folder
    forget()


@pytest.mark.parametrize(
    ("kind", "name", "text"), [("gpus", "a", GPU), ("links", "b", LINK), ("nodes", "c", NODE)]
)
def test_adding_puts_a_file_where_it_is_found(own, tmp_path, kind, name, text):
    path = tmp_path / f"{name}.yaml"
    path.write_text(text.replace("aliases: [Mine, MY 1]\n", ""))
    added = add_entry(path)
    assert (added.catalogue, added.name, added.replaces) == (kind, name, False)
    assert added.path == own / kind / f"{name}.yaml"
    assert added.path.read_text() == path.read_text()
    forget()
    assert name in {"gpus": gpus, "links": links, "nodes": nodes}[kind]()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\n", "must be the file of a GPU (with peak), a link (with rate) or a node"),
        (GPU.replace("64 GB", "-1 GB"), "memory.value: "),
        (GPU.replace("[Mine, MY 1]", "\n  - Mine"), "aliases: must stand on one line"),
        (NODE.replace("my-gpu", "h2000"), "gpu: must be a known GPU, but got 'h2000'"),
    ],
)
def test_adding_refuses_what_would_not_load(own, tmp_path, text, message):
    path = tmp_path / "new.yaml"
    path.write_text(text)
    with pytest.raises(DpsimError) as caught:
        add_entry(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert not [*own.glob("*/new.yaml")]


def test_the_command_adds_and_lists(run, tmp_path):
    path, folder = tmp_path / "my-gpu.yaml", tmp_path / "deep" / "catalogue"
    path.write_text(GPU)
    _, added, _ = run("catalogue", "add", path, "--json", folder=folder)
    assert json.loads(added) == {
        "schema_version": 1,
        "kind": "catalogue-add",
        "catalogue": "gpus",
        "name": "my-gpu",
        "path": str(folder / "gpus" / "my-gpu.yaml"),
        "replaces": False,
    }
    _, listed, _ = run("catalogue", "gpus", "--json", folder=folder)
    assert "my-gpu" in [row["name"] for row in json.loads(listed)["rows"]]
    assert '"my-gpu"' in run("schema", folder=folder)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add"], "name: must be the YAML file of a GPU, a link or a node, but is missing"),
        (["nodes", "dgx-x100"], "must be a known node, but got 'dgx-x100' (did you mean 'dgx-"),
        (["models", "resnet51"], "must be a known model, but got 'resnet51' (did you mean 'resn"),
        (["add", "none.yaml"], "none.yaml: cannot be read"),
    ],
)
def test_the_command_says_what_is_wrong(run, tmp_path, arguments, message):
    code, _, err = run("catalogue", *arguments, folder=tmp_path)
    assert code == 2
    assert message in err


def test_the_catalogue_finds_names_parts_of_names_and_aliases(run):
    def names(*requested):
        rows = json.loads(run("catalogue", *requested, "--json")[1])["rows"]
        return [row["name"] for row in rows]

    assert names("gpus", "1080Ti") == ["gtx-1080-ti"]
    assert names("models", "llama3.1") == ["llama3.1-8b", "llama3.1-70b", "llama3.1-405b"]


def test_sweeps_find_them_in_their_worker_processes(run, own, tmp_path):
    scenario = tmp_path / "sweep.yaml"
    scenario.write_text(
        "name: own\n"
        "cluster: {nodes: 2, node: my-node}\n"
        "workload: {model: resnet18, batch_per_gpu: 8, precision: bf16}\n"
        "run: {steps: 2, warmup: 0}\n"
        "sweep: {method: grid, parameters: {cluster.nodes: {values: [1, 2]},\n"
        "  cluster.node: {values: [my-node, dgx1-p100]}, workload.precision: {values: [fp32]}}}\n"
    )
    out = tmp_path / "out"
    # In a process of its own: workers that an earlier sweep left here know another folder.
    program = [sys.executable, "-c", "from dpsim.cli import main; main()"]
    subprocess.run([*program, "sweep", scenario, "-o", out, "--workers", "2"], check=True)
    _, results, _ = run("results", out, "--json", folder=own)
    assert len(json.loads(results)["rows"]) == 4
