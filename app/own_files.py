"""Uploaded files: their contents, and the scenario's result with them.

They are read within limits, in a folder that is deleted afterwards. No code in them is run, and
other sessions cannot see them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from app.reading import scenario
from app.spec import Spec
from app.work import Report
from dpsim.base.errors import DpsimError
from dpsim.base.files import unpacked
from dpsim.base.units import DATA, human, plural
from dpsim.engine import Result, simulate
from dpsim.hardware import load_profile
from dpsim.imports.kineto import profile_kineto
from dpsim.imports.nccl_tests import parse_nccl_tests
from dpsim.imports.nccl_tests_fit import fit_nccl_tests
from dpsim.imports.nvidia_topo import node_from_nvidia_topo
from dpsim.imports.options import NodeOptions
from dpsim.imports.reading import ImportFileError
from dpsim.scenario import Scenario
from dpsim.studies.calibrate import calibrate, runs_of_table
from dpsim.workload import ConfigSource, Model, ProfileSource, load_model_profile
from dpsim.workload.models import from_config

MOST_BYTES = 64 * 2**20  # of an upload, unpacked
MOST_ROWS = 64  # of a table of measured steps
_NODES = "cluster.node"


@dataclass(frozen=True, slots=True)
class Found:
    """The contents of a file, and the scenario's results without it and with it, where possible.

    ``lines`` describe it; ``text`` is dpsim's conversion, offered as the file ``name``. ``changed``
    or ``node`` (for `Spec.with_value`) apply it to the scenario; None if it changes nothing.
    """

    lines: tuple[str, ...]
    name: str = ""
    text: str = ""
    node: str | None = None
    changed: Callable[[Scenario], Scenario] | None = None
    without: Result | None = None
    with_it: Result | None = None


def outcome(name: str, data: bytes, kind: str, spec: Spec, report: Report) -> Found:
    """Read the file ``name`` of a ``kind`` (of `KINDS`), and simulate ``spec`` with it.

    Raises DpsimError, with the file's name and the line if known, for invalid files.
    """
    given = scenario(spec)
    with uploaded_file(name, data) as path:
        found = KINDS[kind].read(path, path.read_bytes())
        if found.node is not None:
            changed = scenario(spec.with_value(_NODES, found.node))
        elif found.changed is not None:
            changed = found.changed(given)
        else:
            return found
        # Steps report the same progress, to notice cancellation.
        without = simulate(given, lambda _: report(0, 2))
        # While the folder exists: a model's source is read again when it is simulated.
        with_it = simulate(changed, lambda _: report(1, 2))
    # The function that changes a scenario cannot leave this process.
    return replace(found, changed=None, without=without, with_it=with_it)


def _config(path: Path, content: bytes) -> Found:
    return _found_model(from_config(path).build(), ConfigSource(config=str(path)))


def _model_profile(path: Path, content: bytes) -> Found:
    return _found_model(load_model_profile(path).model(), ProfileSource(profile=str(path)))


def _kineto(path: Path, content: bytes) -> Found:
    profile = profile_kineto(path, name="traced")
    text = profile.to_json()
    written = path.with_name("profile")
    written.write_text(text, encoding="utf-8")
    # Read the profile back, so that the page shows the contents of the downloaded file.
    found = _model_profile(written, b"")
    return Found((*found.lines, *profile.notes), "profile.json", text, changed=found.changed)


def _calibration(path: Path, content: bytes) -> Found:
    profile = load_profile(path)
    lines = (
        f"calibration profile {profile.name!r}: {profile.formula or 'tables'}",
        str(profile.residuals),
    )
    profile.transport()  # raises for an unknown kind
    return Found(lines, changed=lambda given: given.model_copy(update={"calibration": profile}))


def _nccl_tests(path: Path, content: bytes) -> Found:
    log = parse_nccl_tests(content)
    profile = fit_nccl_tests(log, "nccl-tests", "the log")
    left = profile.residuals
    where = f"{log.ranks} ranks on {plural(log.hosts, 'host')}"
    lines = (
        f"{log.operation} of {where}: {profile.formula} describes its {left.n} rows with an error "
        f"of {left.mean_ape:.1%} on average",
        f"{left.worst_ape:.1%} at worst (at {left.worst_bytes:,} bytes)",
        *(f"{name} = {value.value:.4g} {value.unit}" for name, value in profile.parameters.items()),
    )
    return Found(lines, "profile.json", profile.to_json())


def _nvidia_topo(path: Path, content: bytes) -> Found:
    draft = node_from_nvidia_topo(content, NodeOptions(), "the upload")
    text = draft.to_yaml()
    # The scenario takes it as one value, in JSON; the text keeps its comments.
    node = YAML(typ="safe", pure=True).load(text)
    lines = (f"{draft.to_node().gpus} GPUs {draft.gpu.value}", *draft.assumptions())
    return Found(lines, "node.yaml", text, node=json.dumps(node))


def _found_model(model: Model, source: ConfigSource | ProfileSource) -> Found:
    def with_model(given: Scenario) -> Scenario:
        workload = given.workload.model_copy(update={"model": source})
        return given.model_copy(update={"workload": workload})

    lines = (
        f"{model.name}: {model.parameters:,} parameters in {len(model.layers):,} layers",
        f"{human(4.0 * model.parameters, DATA, 4)} of weights in fp32",
    )
    return Found(lines, changed=with_model)


class Kind(NamedTuple):
    """The reader of a kind of file, and its use, in words."""

    read: Callable[[Path, bytes], Found]
    gain: str


KINDS: dict[str, Kind] = {
    "a Hugging Face config.json": Kind(_config, "The described model replaces the scenario's."),
    "a trace of PyTorch's profiler (Kineto)": Kind(
        _kineto, "Its layers, with their measured times, replace the scenario's model."
    ),
    "a model profile (dpsim import)": Kind(
        _model_profile, "Its layers, with their measured times, replace the scenario's model."
    ),
    "a calibration profile (dpsim validate calibrate)": Kind(
        _calibration, "Messages take the times that were measured."
    ),
    "a log of nccl-tests": Kind(
        _nccl_tests, "A latency and a rate are fitted to its rows: a calibration profile to keep."
    ),
    "the text of nvidia-smi topo -m": Kind(
        _nvidia_topo, "The described node replaces the scenario's."
    ),
}


def own_steps(name: str, data: bytes, spec: Spec, report: Report) -> tuple[dict[str, Any], str]:
    """Fit ``spec`` to the table ``name`` of measured steps.

    Returns the output of `dpsim calibrate`, and the profile's text for a scenario's
    ``calibration``. Raises DpsimError, with the file's name and the line, for invalid tables.
    """
    given = scenario(spec)
    with uploaded_file(name, data) as path:
        # Log files would be beside the table, where an upload has none.
        runs = runs_of_table(path, lambda sets: scenario(spec.with_options(sets)), most=MOST_ROWS)
    report(1, 2)
    found = calibrate(runs, given)
    return found.to_json(), found.profile.model_dump_json(exclude_defaults=True)


@contextmanager
def uploaded_file(name: str, data: bytes) -> Iterator[Path]:
    """Provide the upload ``name`` as a file in an empty folder.

    Raises DpsimError, with the upload's name and the line if known, for invalid files.
    """
    # Unpack no more than the limit.
    content = unpacked(name, data, MOST_BYTES)
    if not content.strip():
        raise DpsimError(f"{name}: must not be empty")
    with TemporaryDirectory() as folder:
        # Only messages use the upload's name: it could be anything.
        path = Path(folder) / "file"
        path.write_bytes(content)
        try:
            yield path
        except ImportFileError as error:
            raise error.of(Path(name)) from None
        except DpsimError as error:
            raise DpsimError(str(error).replace(str(path), name)) from None
