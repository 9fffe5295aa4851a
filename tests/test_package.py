"""What the package shows, what importing it costs, what the wheel holds and what is pinned."""

import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from types import ModuleType
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dpsim
from dpsim.network.kernel import kernel

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = [
    "dpsim",
    *(found.name for found in walk_packages(dpsim.__path__, "dpsim.") if found.ispkg),
]
TOP_LEVEL = [
    name for name in ("dpsim", "validate", "app") if (ROOT / name / "__init__.py").is_file()
]


def python(code, *arguments, **options):
    """What a new interpreter prints for ``code``, read as JSON."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout
    )


def is_ours(value):
    """Whether a name in a package is its own, and not a module, a ``__future__`` or something
    imported from elsewhere.
    """
    if isinstance(value, ModuleType):
        return False
    return getattr(value, "__module__", "dpsim").partition(".")[0] in TOP_LEVEL


def constants_classes_functions(name):
    """Sorts as ruff does: CONSTANTS first, then Classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_sorted_and_is_what_is_visible(name):
    package = import_module(name)
    visible = {
        word
        for word in dir(package)
        if not word.startswith("_")
        and word not in ("TYPE_CHECKING", "on_demand", "Kinds")
        and is_ours(getattr(package, word))
    }
    assert package.__all__ == sorted(set(package.__all__), key=constants_classes_functions)
    assert visible <= set(package.__all__), "public names that __all__ leaves out"
    assert set(package.__all__) <= set(dir(package)), "names in __all__ that are not there"
    # A module of the same name would stand in the way of an export that is loaded on demand.
    for found in iter_modules(package.__path__, f"{name}."):
        import_module(found.name)
    assert not [word for word in package.__all__ if isinstance(getattr(package, word), ModuleType)]


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'dpsim' has no attribute 'simulatte'"):
        _ = dpsim.simulatte


# What a first prediction needs is imported when it is needed, and what it does not need is not: it
# is there in a second.
BESIDE = {
    "dask",
    "distributed",
    "duckdb",
    "loky",
    "optuna",
    "pandas",
    "plotly",
    "pyarrow",
    "scipy",
    "streamlit",
    "torch",
}
MODELS = {"networkx", "numpy", "pydantic", "ruamel", "simpy"}
FIRST_PREDICTION = """
import contextlib, io, sys
from dpsim.cli import app
with contextlib.redirect_stdout(io.StringIO()):
    app(["run", "scenarios/quickstart.yaml"], standalone_mode=False)
"""

NAMES = "import dpsim.hardware as h; h.gpus().canonical('V100'); list(h.nodes())"

HELP = """
import contextlib, io, sys
from dpsim.cli import main
sys.argv = ["dpsim", "--help"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
"""


@cache
def loaded_by(statement):
    """All modules that it leaves in a new process."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps([*sys.modules]))"
    return frozenset(python(code, cwd=ROOT))


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import dpsim", BESIDE | MODELS | {"typer", "rich"}),
        ("from dpsim import *", BESIDE),
        ("import dpsim.cli", BESIDE | MODELS | {"rich"}),
        (HELP, BESIDE | MODELS | {"rich"}),
        (FIRST_PREDICTION, BESIDE),
        ("import dpsim.workload", {"torch", "scipy", "pint", "networkx"}),
        (NAMES, {"torch", "scipy", "pint", "networkx", "numpy", "streamlit", "ruamel.yaml"}),
        ("import dpsim, validate.ranks.launch", BESIDE | MODELS),
        ("import dpsim, validate.ranks.testbed", BESIDE),
    ],
    ids=[
        "import",
        "all-names",
        "command-line",
        "help",
        "first-prediction",
        "workload",
        "names-of-hardware",
        "rank",
        "testbed",
    ],
)
def test_importing_loads_no_more_than_it_must(statement, unwanted):
    loaded = loaded_by(statement)
    assert "dpsim" in loaded
    too_much = unwanted & loaded
    assert not too_much, "import it inside the function that needs it"


OF_ONE_COMMAND = ("dpsim.studies.replay", "dpsim.studies.sweep", "dpsim.studies.tune")
SHARED = {f"dpsim.commands.{name}" for name in ("help", "options", "progress", "start")}
MOST_MODULES = 186  # of dpsim, for a first prediction


def test_a_prediction_imports_what_it_needs_and_no_other_command():
    loaded = loaded_by(FIRST_PREDICTION)
    ours = [name for name in loaded if name == "dpsim" or name.startswith("dpsim.")]
    assert not [name for name in ours if name.startswith(OF_ONE_COMMAND)]
    commands = {name for name in ours if name.startswith("dpsim.commands.")} - SHARED
    assert commands == {"dpsim.commands.run"}
    assert len(ours) <= MOST_MODULES, "something is imported that only some scenarios need"


INSTALLED = """
import json, sys
root, target, *names = sys.argv[1:]
sys.path = [target] + [place for place in sys.path if place != root]
from importlib import import_module
files = [import_module(name).__file__ for name in names]
from dpsim.hardware import gpus, links, nodes
print(json.dumps({"files": files, "entries": {"gpus": [*gpus()], "links": [*links()], "nodes": [*nodes()]}}))
"""


@pytest.mark.parametrize("compiler", [None, ""])
def test_the_wheel_holds_every_package_with_its_data(tmp_path, compiler):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    environment = os.environ if compiler is None else {**os.environ, "CC": compiler}
    subprocess.run([*build, "--directory", tmp_path], cwd=ROOT, check=True, env=environment)
    (wheel,) = tmp_path.glob("dpsim_train-*.whl")
    # With compiled loops it is one of this platform, of any Python.
    loops = [name for name in ZipFile(wheel).namelist() if name.endswith(".so")]
    assert wheel.name.endswith("-py3-none-any.whl") == (not loops)
    assert len(loops) == (compiler is None and kernel() is not None)
    target = tmp_path / "site"
    # All that pip does with a pure Python wheel, which test_wheel_smoke.py has installed by it.
    ZipFile(wheel).extractall(target)

    found = python(
        INSTALLED, ROOT, target, *TOP_LEVEL, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}
    )

    assert [Path(file).parent.parent for file in found["files"]] == [target] * len(TOP_LEVEL)
    for kind, names in found["entries"].items():
        assert len(names) == len([*(ROOT / "dpsim" / "hardware" / kind).glob("*.yaml")]) > 0
    assert [*target.glob("dpsim_train-*.dist-info/entry_points.txt")], "the dpsim command"


def pinned():
    """Name to version of each line of constraints.txt; fails on a line that is anything but
    ``name==version``.
    """
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    matches = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines]
    assert None not in matches, "each line is name==version"
    return {canonicalize_name(match[1]): match[2] for match in matches}


def test_every_pinned_release_but_torch_has_its_hashes():
    text = (ROOT / "hashes.txt").read_text().replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, version, *hashes = re.split(r"==|\s+--hash=sha256:", line.rstrip())
            assert hashes
            assert all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes)
            found[canonicalize_name(name)] = version
    assert found == {name: version for name, version in pinned().items() if name != "torch"}


def required():
    """Names of all distributions that make installs, with what they require in turn."""
    project = PROJECT["project"]
    texts = (
        project["dependencies"]
        + project["optional-dependencies"]["dev"]
        + PROJECT["build-system"]["requires"]
    )
    waiting, names = [Requirement(text) for text in texts], set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in names and not requirement.extras:
            continue
        names.add(name)
        for needed in map(Requirement, metadata.requires(name) or ()):
            extras = requirement.extras or {""}
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras
            ):
                waiting.append(needed)
    return names


# The extras validate and hf, and what they require: named here, since the tests also run without
# them.
WITH_TORCH = {
    "torch",
    "filelock",
    "fsspec",
    "jinja2",
    "markupsafe",
    "mpmath",
    "setuptools",
    "sympy",
}
WITH_TRANSFORMERS = {
    "hf-xet",
    "httpcore2",
    "httpx2",
    "huggingface-hub",
    "regex",
    "safetensors",
    "tokenizers",
    "transformers",
    "truststore",
}


def test_constraints_pin_every_version_and_nothing_else():
    others = WITH_TORCH | WITH_TRANSFORMERS
    needed = required() | others
    assert needed <= set(pinned())
    # Later ones need less: importlib.metadata is their own.
    if sys.version_info[:2] == (3, 11):
        assert set(pinned()) <= needed


@pytest.mark.torch
def test_the_constraints_of_torch_are_those_that_it_has():
    needed = {
        canonicalize_name(Requirement(text).name)
        for text in metadata.requires("torch")
        if "extra ==" not in text
    }
    assert needed <= set(pinned())


def test_torch_is_pinned_to_the_version_with_a_cpu_build():
    assert pinned()["torch"] == "2.13.0"
