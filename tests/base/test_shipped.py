"""Files that come with dpsim are parsed once, and what is kept of them says the same."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import dpsim
from dpsim.base.shipped import cache_folder, shipped_yaml

EVERY = sorted(Path(dpsim.__path__[0]).rglob("*.yaml"))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize("file", EVERY, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_what_is_kept_of_a_file_is_what_it_says(file):
    output = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8"))
    assert repr(shipped_yaml(file)) == repr(output)  # parsed
    assert repr(shipped_yaml(file)) == repr(output)  # as it was kept


def test_the_cache_is_consulted_first(tmp_path):
    file = tmp_path / "some.yaml"
    file.write_text("a: 1")
    shipped_yaml(file)
    (kept,) = cache_folder().iterdir()
    kept.write_text(json.dumps({"a": 2}))
    assert shipped_yaml(file) == {"a": 2}


@pytest.mark.parametrize("spoiled", [b"", b"{", b"\xff"])
def test_what_is_spoiled_is_made_anew(tmp_path, spoiled):
    file = tmp_path / "some.yaml"
    file.write_text("a: 1")
    shipped_yaml(file)
    (kept,) = cache_folder().iterdir()
    kept.write_bytes(spoiled)
    assert shipped_yaml(file) == {"a": 1}
    assert json.loads(kept.read_text()) == {"a": 1}


def test_a_file_that_says_something_else_is_read_again(tmp_path):
    file = tmp_path / "some.yaml"
    file.write_text("a: 1")
    shipped_yaml(file)
    file.write_text("a: 2")
    assert shipped_yaml(file) == {"a": 2}


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc")
    file = tmp_path / "some.yaml"
    file.write_text("a: 1")
    assert shipped_yaml(file) == {"a": 1}
