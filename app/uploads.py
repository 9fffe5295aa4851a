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
from dpsim.base.files import unpack_gzip
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
class Imported:
    """The contents of a file, and the scenario's results without it and with it, where possible.

    ``lines`` describe it; ``text`` is dpsim's conversion, offered as the file ``name``. ``apply``
    or ``node_json`` (for `Spec.with_value`) puts it into the scenario; None if it changes nothing.
    """

    lines: tuple[str, ...]
    name: str = ""
    text: str = ""
    node_json: str | None = None
    apply: Callable[[Scenario], Scenario] | None = None
    result_before: Result | None = None
    result_after: Result | None = None


def outcome(name: str, data: bytes, kind: str, spec: Spec, report: Report) -> Imported:
    """Read the file ``name`` of a ``kind`` (of `KINDS`), and simulate ``spec`` with it.

    Raises DpsimError, with the file's name and the line if known, for invalid files.
    """
    given = scenario(spec)
    with uploaded_file(name, data) as path:
        found = KINDS[kind].read(path)
        if found.node_json is not None:
            changed = scenario(spec.with_value(_NODES, found.node_json))
        elif found.apply is not None:
            changed = found.apply(given)
        else:
            return found
        # Report at every step, with unchanged numbers: a cancellation takes effect in `report`.
        before = simulate(given, lambda _: report(0, 2))
        # Inside the ``with``: simulating reads the model's file again.
        after = simulate(changed, lambda _: report(1, 2))
    # A closure cannot be pickled, and this result goes to another process.
    return replace(found, apply=None, result_before=before, result_after=after)


def _config(path: Path) -> Imported:
    return _imported_model(from_config(path).build(), ConfigSource(config=str(path)))


def _model_profile(path: Path) -> Imported:
    return _imported_model(load_model_profile(path).model(), ProfileSource(profile=str(path)))


def _kineto(path: Path) -> Imported:
    profile = profile_kineto(path, name="traced")
    text = profile.to_json()
    written = path.with_name("profile")
    written.write_text(text, encoding="utf-8")
    # Read the profile back, so that the page shows the contents of the downloaded file.
    found = _model_profile(written)
    return Imported((*found.lines, *profile.notes), "profile.json", text, apply=found.apply)


def _calibration(path: Path) -> Imported:
    profile = load_profile(path)
    lines = (
        f"calibration profile {profile.name!r}: {profile.formula or 'tables'}",
        str(profile.residuals),
    )
    profile.transport()  # raises for an unknown kind
    return Imported(lines, apply=lambda given: given.model_copy(update={"calibration": profile}))


def _nccl_tests(path: Path) -> Imported:
    log = parse_nccl_tests(path.read_bytes())
    profile = fit_nccl_tests(log, "nccl-tests", "the log")
    errors = profile.residuals
    where = f"{log.ranks} ranks on {plural(log.hosts, 'host')}"
    lines = (
        f"{log.operation} of {where}: {profile.formula} describes its {errors.n} rows with an "
        f"error of {errors.mean_ape:.1%} on average",
        f"{errors.worst_ape:.1%} at worst (at {errors.worst_bytes:,} bytes)",
        *(f"{name} = {value.value:.4g} {value.unit}" for name, value in profile.parameters.items()),
    )
    return Imported(lines, "profile.json", profile.to_json())


def _nvidia_topo(path: Path) -> Imported:
    draft = node_from_nvidia_topo(path.read_bytes(), NodeOptions(), "the upload")
    text = draft.to_yaml()
    # The scenario takes it as one value, in JSON; the text keeps its comments.
    node = YAML(typ="safe", pure=True).load(text)
    lines = (f"{draft.to_node().gpus} GPUs {draft.gpu.value}", *draft.assumptions())
    return Imported(lines, "node.yaml", text, node_json=json.dumps(node))


def _imported_model(model: Model, source: ConfigSource | ProfileSource) -> Imported:
    def with_model(given: Scenario) -> Scenario:
        workload = given.workload.model_copy(update={"model": source})
        return given.model_copy(update={"workload": workload})

    lines = (
        f"{model.name}: {model.parameters:,} parameters in {len(model.layers):,} layers",
        f"{human(4.0 * model.parameters, DATA, 4)} of weights in fp32",
    )
    return Imported(lines, apply=with_model)


class Kind(NamedTuple):
    """The reader of a kind of file, and its use, in words."""

    read: Callable[[Path], Imported]
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


def calibrate_to_upload(
    name: str, data: bytes, spec: Spec, report: Report
) -> tuple[dict[str, Any], str]:
    """Fit ``spec`` to the table ``name`` of measured steps.

    Returns the output of `dpsim calibrate`, and the profile's text for a scenario's
    ``calibration``. Raises DpsimError, with the file's name and the line, for invalid tables.
    """
    given = scenario(spec)
    with uploaded_file(name, data) as path:
        # Without readers: rows may not name logs or traces, since only the table was uploaded.
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
    content = unpack_gzip(name, data, MOST_BYTES)
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
