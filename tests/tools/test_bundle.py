"""What goes into a bundle for a node without network, and that the rest is not missed there."""

import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import bundle

ROOT = Path(__file__).parents[2]
# Stands in for a module that is not installed: to import it raises ModuleNotFoundError.
ABSENT = """
import importlib, sys
sys.modules |= dict.fromkeys(sys.argv[1].split())
for name in ("run", "node", "doctor", "microbench", "backends", "compare"):
    importlib.import_module(f"dpsim.commands.validate.{name}")
import validate.node, validate.backends.matrix, validate.compare.figure, validate.gpu_plan.report
from dpsim.scenario import load_scenario
from dpsim import simulate
print(simulate(load_scenario(sys.argv[2])).step_time_s["mean"])
"""


def dependencies():
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {each.partition(">")[0] for each in content["project"]["dependencies"]}


@pytest.mark.wide  # to import torch takes seconds
@pytest.mark.torch
def test_validating_commands_do_without_what_is_left_out():
    absent = dependencies() - set(bundle.NEEDED)
    assert {"duckdb", "plotly", "scipy"} <= absent
    command = [sys.executable, "-c", ABSENT, " ".join(absent), "scenarios/quickstart.yaml"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) > 0


def test_everything_needed_is_a_dependency_of_the_project():
    assert set(bundle.NEEDED) <= dependencies()


def test_the_bundle_has_the_wheels_and_a_script_for_them(monkeypatch, tmp_path):
    requested, compilers = [], []

    def run(command, check, env=None):
        requested.append(command)
        compilers.append((env or {}).get("CC"))
        (tmp_path / "ruamel_yaml-2-any.whl").write_bytes(b"wheel")

    monkeypatch.setattr(bundle.subprocess, "run", run)
    monkeypatch.setattr(bundle.platform, "machine", lambda: "x86_64")
    size = bundle.bundle(tmp_path, "3.12", "aarch64")
    assert compilers[0] == ""  # of this machine's code none is for that one
    _, download = requested
    assert [*bundle.NEEDED] == download[-len(bundle.NEEDED) :]
    assert "manylinux_2_28_aarch64" in download
    assert download[download.index("--python-version") + 1] == "3.12"
    script = tmp_path / "install.sh"
    listed = tmp_path / "sbom.cdx.json"
    assert size == 5 + script.stat().st_size + listed.stat().st_size
    (component,) = json.loads(listed.read_text())["components"]
    assert component["purl"] == "pkg:pypi/ruamel-yaml@2"
    assert component["hashes"][0]["content"] == hashlib.sha256(b"wheel").hexdigest()
    subprocess.check_call(["sh", "-n", str(script)])
    assert "--no-index" in script.read_text()


def test_a_bundle_that_is_too_large_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "large-1-any.whl").write_bytes(b"wheel")
    monkeypatch.setattr(bundle, "MOST_BYTES", 3)
    monkeypatch.setattr(bundle.subprocess, "run", lambda command, check, env=None: None)
    with pytest.raises(SystemExit, match="must be at most 3 bytes"):
        bundle.bundle(tmp_path, "3.12", "x86_64")
