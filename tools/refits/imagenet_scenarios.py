"""Writes the records' scenario files, scenarios/imagenet.

``python -m tools.refits.imagenet_scenarios``.

Goyal et al. have files of their own, calibrated on their published step of one server. The others'
compute times come from other records and single-GPU rows: a step of one node, by effects fitted
without the record itself.
"""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.terminal import write_whole
from validate.published.imagenet import (
    FILE,
    REQUIRED,
    TABLE,
    Curve,
    Effects,
    effects_without,
    step_seconds,
)
from validate.published.tables import Columns, constants_file, packaged_table

FOLDER = Path(__file__).parents[2] / "scenarios" / "imagenet"
# The records that have files, by their row's name.
FILES = {
    "he2016": "he-2016-8gpus",
    "goyal2017_rn101": "goyal-2017-resnet101-256gpus",
    "smith2017": "smith-2017-tpu-v2",
    "akiba2017": "akiba-2017-1024gpus",
    "jia2018": "jia-2018-2048gpus",
    "ying2018": "ying-2018-tpu-v3",
    "mikami2018v1": "mikami-2018-2176gpus",
    "mikami2018v2": "mikami-2018-3456gpus",
    "yamazaki2019": "yamazaki-2019-2048gpus",
    "mlperf_v1.1_nvidiadgxa100_resnet_8": "mlperf-1.1-resnet50-8xa100",
    "mlperf_v1.1_nvidiadgxa100_resnet_64": "mlperf-1.1-resnet50-64xa100",
    "mlperf_v1.1_nvidiadgxa100_resnet_1024": "mlperf-1.1-resnet50-1024xa100",
    "mlperf_v1.1_nvidiadgxa100_bert_64": "mlperf-1.1-bert-64xa100",
    "mlperf_v3.0_gigabyte8xh100_resnet_8": "mlperf-3.0-resnet50-8xh100",
}


def write() -> None:
    """Write all files."""
    rows = packaged_table(TABLE, REQUIRED)
    for row, name in enumerate(rows.text("record_id").tolist()):
        if name in FILES:
            one, effects = effects_without(row)
            write_whole(FOLDER / f"{FILES[name]}.yaml", text(rows, row, one, effects))


def text(rows: Columns, row: int, one: Curve, effects: Effects) -> str:
    """The file of one record."""
    from ruamel.yaml import YAML

    yaml, stream = YAML(), io.StringIO()
    yaml.width = 130
    yaml.dump(content(FILES[one.record.name], one, effects), stream)
    lines = [
        f"{rows.text('who')[row]} {rows.text('year')[row]}: {rows.text('model')[row]} on "
        f"{rows.text('accelerators')[row]} x "
        f"{rows.text('hardware')[row]}, in {rows.text('time_min')[row]} minutes "
        f"({rows.text('source')[row]}).",
        f"Predicted: {effects.seconds(one) / 60:.4g} minutes, {one.plan.steps:,.0f} steps of "
        f"{one.plan.global_batch:,} samples.",
        f"Assumed: {'; '.join(one.record.assumed)}; jitter.",
        "Written by: python -m tools.refits.imagenet_scenarios",
    ]
    return "".join(f"# {line}\n" for line in lines) + stream.getvalue()


def content(name: str, one: Curve, effects: Effects) -> dict[str, Any]:
    """The scenario with its calibration: a step of one node, predicted by ``effects``."""
    record, plan = one.record, one.plan
    found = record.content(plan) | {"name": name}
    if not record.model.startswith("bert"):
        found["workload"]["dataset"] = {
            "samples": constants_file(FILE)["assumed"]["samples"]["value"]
        }
    per_node = record.cluster["gpus_per_node"]
    # Inside one node: what goes between nodes stays for the simulator to predict.
    small = replace(record, cluster={**record.cluster, "nodes": 1})
    seconds = step_seconds(
        small.scenario(replace(plan, devices=per_node)), np.array([np.log(effects.factor(one))])
    )[0]
    source = (
        "other records and single-GPU rows (validate/published/imagenet/model.py), "
        "fitted without this one"
    )
    found["calibration"] = {"nodes": 1, "step_time": f"{seconds * 1e3:.5g} ms", "source": source}
    return found


if __name__ == "__main__":
    write()
