"""Write the scenario files of the records, scenarios/imagenet.

``python -m tools.refits.imagenet_scenarios``.

Goyal et al. have separate files, calibrated on their published step of one server. The others are
the scenarios that ``dpsim validate reference imagenet`` uses to predict them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsim.base.terminal import write_whole
from validate.published.step_tables.imagenet import SETTINGS, TABLE, read
from validate.published.tables.columns import constants_file, packaged_rows
from validate.published.tables.csv_file import Row
from validate.published.tables.scenario_files import yaml_text

FOLDER = Path(__file__).parents[2] / "scenarios" / "imagenet"
# The records with files, by the name of their row.
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
    for row in packaged_rows(TABLE):
        name = row.text("record_id")
        if name in FILES:
            write_whole(FOLDER / f"{FILES[name]}.yaml", text(row))


def text(row: Row) -> str:
    """Return the file of one record."""
    found = content(row)
    ran = f"{row.text('model')} on {row.text('accelerators')} x {row.text('hardware')}"
    lines = [
        f"{row.text('who')} {row.text('year')}: {ran}, in {row.text('time_min')} minutes "
        f"({row.text('source')}).",
        f"Assumed: {'; '.join(read(row).shown['assumed'])}; jitter.",
        "Written by: python -m tools.refits.imagenet_scenarios",
    ]
    return "".join(f"# {line}\n" for line in lines) + yaml_text(found)


def content(row: Row) -> dict[str, Any]:
    """Return the record's scenario, with the images of an epoch."""
    found = dict(read(row).scenario)
    workload = dict(found["workload"])
    if not workload["model"].startswith("bert"):
        workload["dataset"] = {"samples": constants_file(SETTINGS)["assumed"]["samples"]["value"]}
    return found | {"name": FILES[row.text("record_id")], "workload": workload}


if __name__ == "__main__":
    write()
