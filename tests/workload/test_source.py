import json

import pytest
from pydantic import ValidationError

from dpsim.base.errors import ScenarioError
from dpsim.scenario import load_scenario
from dpsim.workload import ModelProfile, WorkloadConfig, build_model

SCENARIO = "name: own\ncluster: {nodes: 1, node: dgx1-v100}\nworkload:\n  model: %s\n  batch_per_gpu: 4\n%s"
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 128,
    "vocab_size": 100,
}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads a scenario of that model from a folder that is not the current one, and that holds a
    configuration and a profile.
    """
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "gpt.json").write_text(json.dumps(GPT2))
    (folder / "bad.json").write_text(json.dumps(GPT2 | {"n_head": 5}))
    (folder / "p.json").write_text(ModelProfile.of(build_model("alexnet"), {}).to_json())
    monkeypatch.chdir(tmp_path)

    def call(model, more=""):
        (folder / "s.yaml").write_text(SCENARIO % (model, more))
        return load_scenario("here/s.yaml")

    return call


def test_a_configuration_beside_the_scenario(load):
    workload = load("{config: gpt.json}").workload
    assert workload.model.config == "here/gpt.json"
    assert workload.build().sample == "128 tokens"


def test_a_folder_of_hugging_face_has_its_configuration(load, tmp_path):
    (tmp_path / "here" / "hub").mkdir()
    (tmp_path / "here" / "hub" / "config.json").write_text(json.dumps(GPT2))
    workload = load("{config: hub}").workload
    assert workload.model.config == "here/hub/config.json"
    assert workload.build().sample == "128 tokens"


def test_a_configuration_has_a_sequence_length(load):
    assert (
        load("{config: gpt.json}", "  sequence_length: 32\n").workload.build().sample == "32 tokens"
    )
    with pytest.raises(
        ScenarioError,
        match=r"s.yaml:6:20: workload.sequence_length: must be from 1 to 128 tokens .* but got 129",
    ):
        load("{config: gpt.json}", "  sequence_length: 129\n")


def test_a_profile_beside_the_scenario(load):
    assert load("{profile: p.json}").workload.build() == build_model("alexnet")


def test_an_absolute_path_stays(load, tmp_path):
    path = tmp_path / "here" / "gpt.json"
    assert load(f"{{config: {path}}}").workload.model.config == str(path)


def test_a_workload_with_a_source_survives_a_round_trip(load):
    workload = load("{config: gpt.json}").workload
    assert WorkloadConfig.model_validate_json(workload.model_dump_json()) == workload


def test_a_file_of_python_is_beside_the_scenario_and_a_module_is_not(load):
    assert (
        load('{torch: "nets/small.py:build", input: [3, 8, 8]}').workload.model.torch
        == "here/nets/small.py:build"
    )
    assert (
        load('{torch: "nets.small:build", input: [3, 8, 8]}').workload.model.torch
        == "nets.small:build"
    )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            "resnet51",
            "s.yaml:4:10: workload.model: must be a known model, but got 'resnet51' (did you mean "
            "'resnet50'?)",
        ),
        (
            "{config: none.json}",
            "s.yaml:4:19: workload.model.config: here/none.json: cannot be read: No such file or "
            "directory",
        ),
        (
            "{config: bad.json}",
            "here/bad.json: n_embd must be a multiple of n_head, but got 64 and 5",
        ),
        ("{profile: gpt.json}", "workload.model.profile: here/gpt.json: name: is missing"),
        ("{profile: s.yaml}", "workload.model.profile: here/s.yaml: "),
        (
            "{torch: build, input: [3]}",
            "workload.model.torch: must be package.module:factory or file.py:factory, but got "
            "'build'",
        ),
        ('{torch: "a:b"}', "workload.model.input: is missing"),
        (
            '{torch: "a:b", input: [0]}',
            "workload.model.input[0]: must be greater than 0, but got 0",
        ),
        (
            '{torch: "a:b", input: [1], dtype: int8}',
            "workload.model.dtype: must be one of float32, int64, but got 'int8'",
        ),
        (
            "{torhc: 'a:b'}",
            "s.yaml:4:10: workload.model: must have exactly one of the keys torch, config, "
            "profile, but got torhc",
        ),
        (
            "{config: gpt.json, profile: p.json}",
            "exactly one of the keys torch, config, profile, but got config, profile",
        ),
        ("{}", "exactly one of the keys torch, config, profile, but got none of them"),
        ("5", "workload.model: must be text or a mapping, but got 5"),
    ],
)
def test_bad_sources(load, model, message):
    with pytest.raises(ScenarioError) as caught:
        load(model)
    assert message in str(caught.value)


def test_sequence_length_is_not_for_a_profile(load):
    with pytest.raises(ScenarioError, match=r"must be left out for a model of images, but got 32"):
        load("{profile: p.json}", "  sequence_length: 32\n")


def test_without_a_scenario_paths_are_as_they_are(tmp_path):
    with pytest.raises(ValidationError, match=r"none\.json: cannot be read"):
        WorkloadConfig.model_validate({"model": {"config": "none.json"}, "batch_per_gpu": 1})
