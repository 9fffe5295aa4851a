"""Fits the constants of the simulator's roofline on public one-GPU training rows.

    device = sum over layers and passes of
                 max(FLOP / (fraction peak speed) + ramp, bytes / (memory B)) x framework x GPU
    host   = launch x kernels
    update = max(update bytes / (memory B), launch x update kernels)
    step   = (device^p + host^p)^(1/p) + update + per step

over the layer tables of `dpsim.workload`. Frameworks and single GPUs have effects of their own,
which are not written. Each model counts as much as another from 20 rows on. Run ``python -m
tools.refits.roofline_fit`` after a change of models or rows: it writes
``dpsim/workload/efficiency.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dpsim.workload
from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.terminal import write_whole
from dpsim.workload import update_bytes
from tools.refits.block_fit import Block, FitResult, fit_blocks, soft_maximum
from tools.refits.one_gpu_rows import (
    REQUIRED,
    TABLE,
    fit_rows,
    measured_seconds,
)
from tools.refits.roofline_work import (
    CLASSES,
    FRACTIONS,
    Work,
    catalogue_name,
    usable,
    work_of,
)
from tools.refits.yaml_files import rounded, yaml_text
from validate.published.tables import Columns, packaged_table

PRIORS = Path(__file__).with_name("roofline.yaml")
HEADER = (
    "# Written by `python -m tools.refits.roofline_fit`: what it is and how far to trust it, "
    "dpsim/workload/efficiency.py.\n"
    "# SI units; error: relative standard error of the fit.\n"
)
# What stands in for a measurement, and how far it may be off (standard deviation of the logarithm).
_UNFITTED, _UNFITTED_ERROR = "no row to fit it on", 0.3
# Effects that differ between rows, and whose they are.
EFFECTS = (
    ("generation", "generation"),
    ("gpu", "gpu"),
    ("speed", "framework"),
    ("launch", "framework"),
)
# Most of the tables' runs are Adam, LAMB or momentum; the update is a few percent.
_UPDATE_BYTES = update_bytes("adam")


@cache
def priors_file() -> dict[str, Any]:
    """What is known of the constants before the fit."""
    from ruamel.yaml import YAML

    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(PRIORS.read_text(encoding="utf-8"))
    return loaded


def step_seconds(work: Work, v: Mapping[str, FloatArray], sharpness: float) -> FloatArray:
    """Step seconds per row; formula in the module's docstring."""
    row, bandwidth = work.row, v["memory"] * work.memory
    width = np.where(work.half, v["half_width"], 4.0)
    # Fusion spares element-wise layers their traffic; products write their results all the same.
    kept = np.where(work.product, 1.0, np.where(work.fused, v["fusion"], 1.0)[row])

    fractions = np.array([v[name][0] for name in FRACTIONS])
    saved = np.where(work.square, v["winograd"][0], 1.0)
    rate = work.peak * v["generation"] * np.where(work.throttled, v["throttle"], 1.0)
    products = (
        work.flop / (fractions[work.fraction] * saved * work.lost * rate[row])
        + work.ramps * v["ramp"][0]
    )
    # A pass computes while it moves data: the slower of the two is what it takes.
    passes = np.maximum(products * work.product, work.traffic * kept * (width / bandwidth)[row])
    # From one number a pass of a layer to one a row: those of a row stand together.
    device = np.add.reduceat(passes, work.starts) * v["speed"] * v["gpu"]
    host = v["launch"] * np.add.reduceat(work.kernels, work.starts)
    update = np.maximum(
        _UPDATE_BYTES * work.parameters / bandwidth,
        v["launch"] * v["update_launches"] * work.tensors,
    )
    return soft_maximum(device, host, sharpness) + update + v["step"]


def _prior_launch(framework: str, priors: Mapping[str, Any]) -> float:
    graph = any(word in framework.casefold() for word in priors["graph_words"])
    return float(priors["launch"]["graph" if graph else "eager"]["value"])


def _blocks(work: Work, count: int, priors: Mapping[str, Any]) -> list[Block]:
    zero: IntArray = np.zeros(count, dtype=np.int64)
    single = {**priors["fractions"], **priors["constants"], "fusion": priors["fusion"]}
    blocks = [
        Block(n, np.array([float(e["value"])]), np.array([float(e["spread"])]), zero)
        for n, e in single.items()
    ]
    for effect, group in EFFECTS:
        members = sorted(set(work.names[group]))
        index = np.array([members.index(member) for member in work.names[group]], dtype=np.int64)
        # Factors on the mean of all rows, but for the launch, which is in seconds.
        centre = np.ones(len(members))
        prior = priors[effect]
        if effect == "launch":
            centre = np.array([_prior_launch(member, priors) for member in members])
            prior = prior["eager"]
        spread = np.full(len(members), float(prior["spread"]))
        blocks.append(Block(effect, centre, spread, index))
    return blocks


def fit(rows: Columns) -> tuple[Work, FitResult, FloatArray]:
    """Fits the constants to `usable` rows.

    Returns the work, the values, and the fitted step seconds.
    """
    priors = priors_file()
    work, measured = work_of(rows), measured_seconds(rows)
    blocks = _blocks(work, len(rows), priors)
    models = rows.text("model").tolist()
    # The root: weights multiply residuals, and it is their squares that add up.
    weights = np.array([min((20.0 / models.count(model)) ** 0.5, 1.0) for model in models])
    sharpness = float(priors["sharpness"]["value"])

    result = fit_blocks(
        blocks,
        lambda v: step_seconds(work, v, sharpness),
        measured,
        float(priors["noise"]["value"]),
        weights,
    )
    fitted = step_seconds(
        work, {block.name: result.values[block.name][block.rows] for block in blocks}, sharpness
    )
    return work, result, fitted


def _usual_of(
    result: FitResult, frameworks: Sequence[str], wanted: Sequence[str], meaning: str
) -> dict[str, Any]:
    """The launch cost and the speed of the middle one of some frameworks.

    These are the frameworks whose names have one of the ``wanted`` words.
    """

    def middle(name: str, among: Sequence[int], unit: str, meaning: str) -> dict[str, Any]:
        logs = np.log(result.values[name][among])
        return {
            "value": rounded(float(np.exp(np.median(logs))), 3),
            "error": rounded(float(np.std(logs)), 2),
            "unit": unit,
            "meaning": meaning,
        }

    among = [
        i for i, name in enumerate(frameworks) if any(word in name.casefold() for word in wanted)
    ]
    launch = f"{meaning}; median of {len(among)} frameworks, error: their spread"
    usual = (
        "seconds on the GPU against the mean of all rows; "
        "median of frameworks, AdaptDL's instrumented runs apart"
    )
    plain = [i for i in among if "adaptdl" not in frameworks[i].casefold()]
    return {
        "launch": middle("launch", among, "s", launch),
        "usual": middle("speed", plain, "1", usual),
    }


def constants_of(work: Work, result: FitResult) -> dict[str, Any]:
    """The content of efficiency.yaml."""
    priors = priors_file()

    def entry(name: str, at: int = 0, **words: str) -> dict[str, Any]:
        value, error = result.values[name][at], result.spreads[name][at]
        return {"value": rounded(value, 4), "error": rounded(error, 2), **words}

    def described(name: str, prior: Mapping[str, str]) -> dict[str, Any]:
        return entry(name, unit=prior["unit"], meaning=prior["meaning"])

    fractions: dict[str, Any] = {name: entry(name, unit="1") for name in FRACTIONS}
    for kind in CLASSES:
        half = fractions[f"{kind}_half"]["value"]
        fractions[f"{kind}_fp8"] = {
            "value": half,
            "error": _UNFITTED_ERROR,
            "unit": "1",
            "meaning": f"as half; {_UNFITTED}",
        }
    # A prior that no row could move: recurrences run no tf32.
    fractions.pop("rnn_tf32")
    generations = sorted(set(work.names["generation"]))
    return {
        "fractions": fractions,
        "constants": {name: described(name, prior) for name, prior in priors["constants"].items()},
        "generations": {
            name: entry("generation", i, unit="1") for i, name in enumerate(generations)
        },
        "execution": _executions(work, result, described("fusion", priors["fusion"])),
    }


def _executions(work: Work, result: FitResult, fusion: dict[str, Any]) -> dict[str, Any]:
    """What launches cost, and how much is fused, by the way in which a framework executes."""
    priors = priors_file()
    frameworks = sorted(set(work.names["framework"]))
    wanted = {"eager": ["pytorch"], "graph": priors["graph_words"]}
    found = {
        how: _usual_of(result, frameworks, words, priors["launch"][how]["meaning"])
        for how, words in wanted.items()
    }
    nothing = {"value": 1.0, "error": 0.0, "unit": "1", "meaning": "nothing is fused"}
    found["eager"]["fusion"] = nothing
    found["graph"]["fusion"] = fusion

    # torch.compile fuses as XLA does; the table has no row of it.
    found["compile"] = {
        name: {**constant, "meaning": f"as eager; {_UNFITTED}"}
        for name, constant in found["eager"].items()
    }
    as_graph = {"error": _UNFITTED_ERROR, "meaning": f"as graph; {_UNFITTED}"}
    found["compile"]["fusion"] = fusion | as_graph
    return found


def errors(predicted: Sequence[float] | FloatArray, measured: FloatArray) -> dict[str, float]:
    """Absolute percentage errors, as fractions."""
    error = np.abs(np.asarray(predicted) / measured - 1)
    spread = {
        "median": np.median(error),
        "mean": error.mean(),
        "p95": np.percentile(error, 95),
        "worst": error.max(),
    }
    return {"n": len(error)} | {name: rounded(value, 3) for name, value in spread.items()}


def _effects(
    work: Work, result: FitResult, tested: Work, wanted: Collection[str]
) -> dict[str, FloatArray]:
    """The ``wanted`` effects of a fit on the rows ``tested``; of others the mean of all rows."""
    priors = priors_file()
    found = {}
    for effect, group in EFFECTS:
        known = dict(
            zip(sorted(set(work.names[group])), result.values[effect].tolist(), strict=True)
        )
        # Then every member is taken as one that no row has.
        if effect not in wanted:
            known = {}
        found[effect] = np.array(
            [
                known.get(name, _prior_launch(name, priors) if effect == "launch" else 1.0)
                for name in tested.names[group]
            ]
        )
    return found


def leave_models_out(rows: Columns, *known_effects: Collection[str]) -> FloatArray:
    """Step seconds of each row, fitted on the rows of all other models.

    Constants, and ``known_effects`` of frameworks and GPUs, are those of the fit; other effects are
    usual. One line of seconds for each set of effects that is given.
    """
    priors = priors_file()
    out = np.full((len(known_effects), len(rows)), np.nan)
    names = np.array([catalogue_name(model) for model in rows.text("model").tolist()])
    for name in sorted(set(names.tolist())):
        test = names == name
        work, result, _ = fit(rows.where(~test))
        # Constants of the fit, the same for all tested rows; effects are set by set below.
        tested = work_of(rows.where(test))
        values = {
            n: np.full(int(test.sum()), result.values[n][0])
            for n in (*priors["fractions"], *priors["constants"], "fusion")
        }
        sharpness = float(priors["sharpness"]["value"])
        for line, effects in enumerate(known_effects):
            of_fit = _effects(work, result, tested, effects)
            out[line, test] = step_seconds(tested, values | of_fit, sharpness)
    return out


def write() -> None:
    """Fit, and write the file."""
    rows = usable(fit_rows(packaged_table(TABLE, REQUIRED)))
    work, result, fitted = fit(rows)
    content = constants_of(work, result)
    content["errors"] = {
        "fitted rows, with the effects of frameworks and GPUs": errors(
            fitted, measured_seconds(rows)
        ),
        "each model left out, all its variants with it": errors(
            leave_models_out(rows, dict(EFFECTS))[0], measured_seconds(rows)
        ),
    }
    write_whole(Path(dpsim.workload.__path__[0]) / "efficiency.yaml", yaml_text(HEADER, content))


if __name__ == "__main__":
    write()
