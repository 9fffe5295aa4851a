"""`dpsim init` writes scenarios that run; `dpsim scenarios` lists those that come with dpsim."""

import json

import pytest

from dpsim import load_scenario
from dpsim.commands.scenarios import about
from dpsim.engine import memory_use
from dpsim.hardware import gpus, nodes
from dpsim.imports.first_scenario import STRATEGIES, machine_for
from dpsim.scenario import shipped

QUICK = ("--set", "run.steps=2", "--set", "run.warmup=0")


@pytest.mark.parametrize("strategy", [*STRATEGIES])
def test_every_strategy_runs_and_each_value_has_a_comment(dpsim, tmp_path, strategy):
    file = tmp_path / "first.yaml"
    requested = ["--gpu", "a100-sxm-40gb", "--nodes", 2, "--model", "gpt2", "--strategy", strategy]
    code, out, err = dpsim("init", *requested, "-o", file)
    assert (code, out, err) == (0, "", f"wrote {file}: dpsim run {file}\n")
    values = [line for line in file.read_text().splitlines()[2:] if not line.endswith(":")]
    assert [line for line in values if "  # " not in line] == []
    code, out, _ = dpsim("run", file, *QUICK, "--json")
    assert code == 0
    assert json.loads(out)["workers"] == 16


def test_without_a_word_it_takes_what_is_usual(dpsim):
    code, out, _ = dpsim("init")
    assert code == 0
    assert "model: llama3-8b" in out
    assert "node: dgx-h100" in out


@pytest.mark.parametrize(
    ("gpu", "message"),
    [
        (
            "A100",
            "a100-sxm-40gb, 8 in each dgx-a100; others: a100-pcie-40gb, a100-pcie-80gb, a100-sxm-80gb",
        ),
        ("A100-80GB", "a100-sxm-80gb, 8 in each dgx-a100; others: a100-pcie-80gb"),
        ("a100-sxm-80gb", None),
        ("L40S", None),
    ],
)
def test_a_name_that_several_gpus_share_says_which_is_taken(dpsim, gpu, message):
    code, _, err = dpsim("init", "--gpu", gpu, "--model", "gpt2")
    assert code == 0
    assert err == ("" if message is None else f"note: --gpu {gpu} is taken as {message}\n")


def test_a_machine_without_other_options_has_its_usual_gpus(dpsim):
    out = dpsim("init", "--node", "dgx-a100", "--model", "gpt2")[1]
    assert "node: dgx-a100" in out
    assert " gpu:" not in out


def test_options_are_what_the_file_says(dpsim, tmp_path):
    file = tmp_path / "cards.yaml"
    requested = "--gpu 4090 --nodes 2 --gpus-per-node 2 --network 10GbE --model resnet50 --batch 32"
    assert dpsim("init", *requested.split(), "-o", file)[0] == 0
    scenario = load_scenario(file)
    assert scenario.cluster.accelerator.name == "rtx-4090"
    assert scenario.cluster.ranks == 4
    assert scenario.cluster.network.nic.name == "ethernet-10g"
    assert scenario.workload.batch_per_gpu == 32
    assert scenario.workload.precision == "bf16"


@pytest.mark.parametrize(("nodes", "passes"), [(4, 16), (64, 1)])
def test_a_global_batch_is_shared_in_passes_that_fit(dpsim, tmp_path, nodes, passes):
    file = tmp_path / "llama.yaml"
    dpsim("init", "--nodes", nodes, "--global-batch", 1024, "-o", file)
    workload = load_scenario(file).workload
    assert (workload.batch_per_gpu, workload.gradient_accumulation) == (2, passes)


def test_the_strategy_is_the_first_that_fits_and_so_is_the_batch(dpsim):
    small = dpsim("init", "--model", "gpt2")[1]
    large = dpsim("init", "--model", "llama3-8b")[1]
    assert "kind: allreduce" in small
    assert "kind: sharded" in large
    assert "checkpoint: full" in large


@pytest.mark.parametrize(
    ("gpu", "model"),
    [
        ("v100-sxm2-16gb", "resnet50"),
        ("v100-sxm2-32gb", "gpt2-xl"),
        ("a100-sxm-40gb", "llama3-8b"),
        ("h100", "llama3-8b"),
        ("mi300x", "llama3-70b"),
    ],
)
def test_what_it_proposes_fits_with_headroom_where_anything_does(dpsim, tmp_path, gpu, model):
    path = tmp_path / "first.yaml"
    code, _, err = dpsim("init", "--gpu", gpu, "--model", model, "--nodes", "8", "-o", path)
    assert code == 0, err
    assert memory_use(load_scenario(path)).warnings == []


def test_what_fits_only_without_headroom_is_proposed_with_a_warning(dpsim, tmp_path):
    """Recomputed activations leave neither of the requested 3 samples a pass and FSDP."""
    path = tmp_path / "first.yaml"
    requested = ["--gpu", "h100", "--model", "llama3-8b", "--strategy", "fsdp"]
    code, _, err = dpsim("init", *requested, "--batch", "3", "-o", path)
    assert code == 0, err
    (warning,) = memory_use(load_scenario(path)).warnings
    assert warning.startswith("may not fit")


def test_what_fits_nowhere_says_what_would_help(dpsim):
    code, out, err = dpsim("init", "--gpu", "t4", "--model", "llama3-70b")
    assert (code, out) == (2, "")
    assert "must fit in the 15.8 GB of t4" in err


def test_a_file_that_is_there_is_kept(dpsim, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\n")
    code, _, err = dpsim("init", "-o", file)
    assert (code, err) == (
        2,
        f"dpsim: {file}: must be a new file, or be given with --force, but exists\n",
    )
    assert file.read_text() == "name: mine\n"
    assert dpsim("init", "-o", file, "--force")[0] == 0


def test_it_asks_in_a_terminal(dpsim, monkeypatch, tmp_path):
    answers = iter(["T4", 2, "25GbE", "resnet50", "powersgd"])
    requested = []

    def prompt(question, **settings):
        requested.append(question)
        return next(answers)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", prompt)
    file = tmp_path / "requested.yaml"
    assert dpsim("init", "-o", file)[0] == 0
    assert requested[:2] == ["GPU", "Number of machines"]
    assert len(requested) == 5
    scenario = load_scenario(file)
    assert scenario.cluster.accelerator.name == "t4"
    assert scenario.strategy.compression.kind == "powersgd"


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        (["--gpu", "h1000"], "--gpu: must be a known GPU, but got 'h1000' (did you mean 'h100'?)"),
        (["--nodes", "0"], "--nodes: must be at least 1, but got '0'"),
        (["--nodes", "2.5"], "--nodes: must be an integer, but got '2.5'"),
        (
            ["--gpus-per-node", "9"],
            "--gpus-per-node: must be at most the 8 of a dgx-h100, but got 9",
        ),
        (["--model", "who/knows"], "--model: must be a known model, but got 'who/knows'"),
        (["--network", "25 GB"], "--network: must be a known link, but got '25 GB'"),
        (["--nodes", "2", "--network", "5 Gbit/m"], "--network: must be a data rate"),
        (
            ["--input", "3,x"],
            "--input: must be whole numbers of at least 1, such as 1,2,4, but got '3,x'",
        ),
        (
            ["--node", "dgx-h100", "--gpus-per-node", "9"],
            "--gpus-per-node: must be at most the 8 of a dgx-h100, but got 9",
        ),
        (
            ["--strategy", "dpp"],
            "--strategy: must be a known strategy, but got 'dpp' (did you mean 'ddp'?)",
        ),
    ],
)
def test_what_is_wrong_is_one_line(dpsim, requested, message):
    code, out, err = dpsim("init", *requested)
    assert (code, out) == (2, "")
    assert err.startswith(f"dpsim: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("message", "meant"),
    [("FSDP", "fsdp"), ("ZeRO-1", "zero-1"), ("zero3", "fsdp"), ("zero_2", "zero-2")],
)
def test_a_strategy_may_be_called_as_others_call_it(dpsim, message, meant):
    requested = ("init", "--model", "gpt2", "--strategy")
    assert dpsim(*requested, message) == dpsim(*requested, meant)


def test_sharded_weights_travel_in_the_precision_of_products(dpsim):
    requested = ("init", "--model", "gpt2", "--strategy", "fsdp", "--precision")
    assert "weight_bytes: 2" in dpsim(*requested, "float16")[1]
    assert "weight_bytes" not in dpsim(*requested, "fp32")[1]


def test_cards_of_another_link_are_counted(dpsim):
    requested = ("init", "--gpu", "A100", "--nodes", 4, "--model", "resnet50")
    assert "nics_per_node: 8  #" in dpsim(*requested, "--network", "25GbE")[1]
    assert "nics_per_node: 1  #" in dpsim(*requested, "--network", "25Gbps", "--nics", 1)[1]
    assert "nics_per_node" not in dpsim(*requested)[1]


@pytest.mark.parametrize(
    ("gpu", "count", "machine"),
    [
        ("h100", None, "dgx-h100"),
        ("h100-sxm-96gb", None, "dgx-h100"),
        ("rtx-3090", None, "pcie4-8gpu"),
        # Not a cloud's by default: a DGX A100 has either memory.
        ("a100-sxm-80gb", None, "dgx-a100"),
        ("mi300x", None, "mi300x-8gpu"),
        ("l20", 1, "pcie4-4gpu"),
        # On 8 lanes, which no machine of the catalogue has, and on 4 of the first generation.
        ("rtx-4060", None, "pcie-8gpu"),
        ("p102-100", None, "pcie-8gpu"),
        # Where only clouds have it, theirs.
        ("a10g", None, "aws-g5-48xlarge"),
        ("gh200", None, "alps-gh200"),
    ],
)
def test_a_machine_is_one_of_the_gpu_or_of_its_like_with_the_same_ports(gpu, count, machine):
    assert machine_for(gpu, count) == machine


def test_machines_have_the_gpu_or_one_of_its_generation_where_there_is_such():
    for gpu, wanted in gpus().items():
        machine = nodes()[machine_for(gpu)]
        own = [node for node in nodes().values() if node.gpu.name == gpu]
        assert not own or machine.gpu.architecture == wanted.architecture


def test_scenarios_are_listed_and_copied(dpsim, tmp_path):
    code, out, _ = dpsim("scenarios", "--json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert {row["name"] for row in rows} == {*shipped()} >= {"quickstart", "llm/llama3-8b-8xh100"}
    assert all(10 < len(row["about"]) <= 110 for row in rows)
    assert all(list(row) == ["name", "about", "path"] for row in rows)
    copy = tmp_path / "mine.yaml"
    dpsim("scenarios", "quickstart", "-o", copy)
    assert copy.read_bytes() == shipped()["quickstart"].read_bytes()
    code, _, message = dpsim("scenarios", "-o", copy)
    assert (code, message) == (
        2,
        f"dpsim: -o {copy}: must be given with the scenario to copy, but is given alone\n",
    )
    assert dpsim("scenarios", "quikstart")[2].startswith(
        "dpsim: must be a known scenario, but got 'quikstart' (did you mean 'quickstart'?)"
    )


def test_a_line_about_a_scenario_ends_with_its_sentence():
    assert about("# One thing on the left, and another one on the right. More.\nname: x\n") == (
        "One thing on the left, and another one on the right"
    )
    assert about("name: x\n") == ""


def test_a_network_may_be_a_rate(dpsim, tmp_path):
    file = tmp_path / "slow.yaml"
    dpsim(
        "init", "--gpu", "t4", "--nodes", 2, "--model", "gpt2", "--network", "5 Gbit/s", "-o", file
    )
    assert load_scenario(file).cluster.network.nic.rate.value == 5e9 / 8
    code, _, err = dpsim("init", "--nodes", 2, "--network", "5 Gbit/m")
    assert (code, err.count("\n")) == (2, 1)


def test_a_model_may_be_a_configuration_of_hugging_face(dpsim, tmp_path):
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {
        "model_type": "llama",
        "intermediate_size": 128,
        "vocab_size": 100,
        "max_position_embeddings": 128,
    }
    (tmp_path / "tiny.json").write_text(json.dumps(sizes))
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "config.json").write_text(json.dumps(sizes))
    (tmp_path / "below").mkdir()
    file = tmp_path / "below" / "first.yaml"
    assert dpsim("init", "--model", tmp_path / "tiny.json", "-o", file)[0] == 0
    written = load_scenario(file)
    assert written.name.startswith("tiny-")
    assert written.workload.optimizer == "adamw"
    assert "config: ../tiny.json" in file.read_text().replace('"', "")
    code, out, _ = dpsim("init", "--model", tmp_path / "hub")
    assert code == 0
    assert "name: hub-ddp" in out
    code, _, err = dpsim("init", "--model", tmp_path / "none.json", "-o", file, "--force")
    assert (code, err.count("\n")) == (2, 1)
    assert "none.json: cannot be read" in err


def test_an_option_that_makes_no_scenario_is_an_error_without_a_place_in_a_file(dpsim):
    code, out, err = dpsim("init", "--gpu", "H100", "--nodes", 4, "--precision", "fp99")
    assert (code, out) == (2, "")
    assert err.startswith(
        "dpsim: the options do not make a scenario: workload.precision: must be one of fp32, "
    )
