"""A config.json is a stranger's: nothing in it is fetched, loaded by name or run."""

import json
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from dpsim.base.child import Child
from dpsim.base.errors import DpsimError, FailedError
from dpsim.workload.models import hf_library, hf_traced
from dpsim.workload.models.hf_config import from_config

pytestmark = pytest.mark.transformers

OPT = {"model_type": "opt", "vocab_size": 100, "hidden_size": 16, "ffn_dim": 32}
OPT |= {"num_hidden_layers": 1, "num_attention_heads": 2, "word_embed_proj_dim": 16}
RESNET = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 8, 8, 8]}


def built(folder, values):
    path = folder / "config.json"
    path.write_text(json.dumps(values))
    entry = from_config(path)
    return entry.build(8 if entry.has_length else None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "detr", "backbone": "microsoft/resnet-50"}, "backbone takes a model from"),
        (
            {"model_type": "detr", "use_timm_backbone": True, "backbone": "hf-hub:someone/net"},
            "backbone takes a model from elsewhere",
        ),
        (
            {"model_type": "maskformer", "backbone_config": {**RESNET, "backbone": "a/b"}},
            "backbone takes a model from elsewhere",
        ),
        ({"model_type": "timm_backbone", "backbone": "x"}, "from another library"),
        (
            {"model_type": "llava", "vision_config": {"model_type": "timm_wrapper"}},
            "from another library",
        ),
        (OPT | {"attn_implementation": "someone/kernel"}, "attn_implementation must be one of"),
        (OPT | {"_attn_implementation": "someone/kernel"}, "attn_implementation must be one of"),
        (OPT | {"activation_function": "someone/kernel"}, "activation_function must be a setting"),
        (OPT | {"activation_function": "../x"}, "activation_function must be a setting's name"),
        (
            {"model_type": "encoder-decoder", "encoder": {"model_type": "../x"}, "decoder": OPT},
            "must be a known model_type",
        ),
    ],
)
def test_what_would_come_from_elsewhere_is_refused(tmp_path, values, message):
    with pytest.raises(DpsimError, match=message):
        built(tmp_path, values)


@pytest.mark.parametrize(
    "more",
    [
        {"architectures": ["Trainer"]},
        {"architectures": ["OPTConfig"]},
        {"architectures": ["BertModel"]},  # of the library, but of another configuration
        {"architectures": [["OPTModel"]]},
        {"experts_implementation": "someone/kernel"},
        {"auto_map": {"AutoConfig": "code.Config"}, "trust_remote_code": True},
        {"quantization_config": {"quant_method": "someone"}, "_commit_hash": "x"},
        {"dtype": "someone", "torch_dtype": "__class__", "per_layer_config": {"0": {"a": "b"}}},
    ],
)
def test_what_is_not_the_configurations_changes_nothing(tmp_path, more):
    assert built(tmp_path, OPT | more).layers == built(tmp_path, OPT).layers


def test_fused_kernels_are_torchs_own(tmp_path):
    fused = built(tmp_path, OPT | {"attn_implementation": "flash_attention_2"})
    assert fused.layers == built(tmp_path, OPT | {"attn_implementation": "sdpa"}).layers
    eager = built(tmp_path, OPT | {"attn_implementation": "eager"})
    assert eager.layers != fused.layers


def test_the_process_does_not_find_what_loads_from_elsewhere(tmp_path, monkeypatch):
    # As pip would install it, in the version that the library asks for.
    from transformers.utils.import_utils import KERNELS_MIN_VERSION

    package, about = tmp_path / "kernels", tmp_path / f"kernels-{KERNELS_MIN_VERSION}.dist-info"
    package.mkdir()
    about.mkdir()
    (about / "METADATA").write_text(f"Name: kernels\nVersion: {KERNELS_MIN_VERSION}\n")
    (package / "__init__.py").write_text(
        f"open({str(tmp_path / 'loaded')!r}, 'w').close()\nraise SystemExit(9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with_it = Child(hf_traced.prepare)
    monkeypatch.setattr(hf_library, "_library", lambda: with_it)
    for family in ("opt", "mra", "rwkv", "yoso"):  # three of which load a kernel whatever they hold
        built(tmp_path, OPT | {"model_type": family})
    with_it.end()
    assert not (tmp_path / "loaded").exists()


def _connect():
    socket.create_connection(("127.0.0.1", 9), 1)


def _look_up():
    socket.getaddrinfo("example.org", 443)


def _start():
    subprocess.run([sys.executable, "-c", "pass"], check=True)


def _write():
    Path("/tmp/dpsim-written").write_text("")


def _load():
    import kernels  # noqa: F401


@pytest.mark.parametrize(
    ("attempt", "why"),
    [
        (_connect, "PermissionError"),
        (_look_up, "PermissionError"),
        (_start, "PermissionError"),
        (_write, "PermissionError"),
        (_load, "ModuleNotFoundError"),
    ],
)
def test_the_librarys_process_is_shut(attempt, why, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    child = Child(hf_traced.prepare)
    with pytest.raises(FailedError, match=why):
        child.run(attempt)
    child.end()
    assert not Path("/tmp/dpsim-written").exists()


def test_a_file_in_the_current_folder_is_no_module(tmp_path):
    for name in ("transformers", "torch", "socket"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w').close()\n")
    (tmp_path / "config.json").write_text(json.dumps(OPT))
    (tmp_path / "mine.yaml").write_text(
        textwrap.dedent("""
        name: mine
        cluster: {nodes: 1, node: dgx1-v100}
        workload: {model: {config: config.json}, batch_per_gpu: 1}
        """)
    )
    command = [Path(sys.executable).with_name("dpsim"), "check", "mine.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run").exists()


T5 = {"model_type": "t5", "vocab_size": 100, "d_model": 16, "d_kv": 8, "d_ff": 32}
T5 |= {"num_layers": 1, "num_heads": 2}


def test_a_setting_that_the_library_overrides_is_reported(tmp_path):
    untied = built(tmp_path, T5 | {"tie_word_embeddings": False})
    tied = built(tmp_path, T5 | {"tie_word_embeddings": True})
    assert untied.parameters == tied.parameters
    assert untied.notes == (
        *tied.notes,
        "ignored: tie_word_embeddings: false in the configuration: the transformers library "
        "builds t5 with true",
    )


def test_a_sample_has_the_tokens_of_the_decoder(tmp_path):
    assert built(tmp_path, T5).sample == "8 tokens and 8 of the decoder"
    assert built(tmp_path, OPT).sample == "8 tokens"
