"""Fits the shipped constants of the step-time models on the public tables.

Writes their YAML files, with standard errors. Run ``python -m tools.refits.step_constants`` after a
change of a model, its priors or the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import validate.published
from dpsim.base.terminal import write_whole
from tools.refits.yaml_files import rounded, yaml_text
from validate.published import adaptdl as small_clusters
from validate.published import scaling as scaled
from validate.published import vtrain as gpt
from validate.published.tables import constants_file, packaged_table

PUBLISHED = Path(validate.published.__path__[0])
HEADER = (
    "# Written by `python -m tools.refits.step_constants`. "
    "SI units; error: relative standard error of the fit.\n"
)


def entries(
    values: Mapping[str, float], errors: Mapping[str, float], units: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """{name: {value, error, unit}}."""
    return {
        name: {
            "value": rounded(value, 5),
            "error": rounded(errors[name], 2),
            "unit": units[name]["unit"],
        }
        for name, value in values.items()
    }


def members(values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """{name: {value}} of a table with one value a group."""
    return {name: {"value": rounded(value, 5)} for name, value in values.items()}


def vtrain() -> dict[str, Any]:
    """The constants of GPT training inside a node."""
    fitted = gpt.fit(packaged_table(gpt.TABLE, gpt.REQUIRED))
    return {
        "parameters": entries(
            fitted.values, fitted.errors, constants_file("vtrain/settings.yaml")["parameters"]
        )
    }


def scaling() -> dict[str, Any]:
    """The constants of scaling efficiency."""
    fitted = scaled.fit(packaged_table(scaled.TABLE, scaled.REQUIRED))
    shown = entries(fitted.values, fitted.errors, constants_file("scaling/settings.yaml")["global"])
    return {
        "global": shown,
        "software": members(fitted.software),
        "input_spread": members(fitted.input_spread),
    }


def adaptdl() -> dict[str, Any]:
    """The networks and jobs of each cluster."""
    rows = packaged_table(small_clusters.TABLE, small_clusters.REQUIRED)
    # Series that no network explains would bend the network's constants.
    rows = rows.where(~small_clusters.contradictory(rows))
    links = small_clusters.described(rows)
    units = constants_file("adaptdl/settings.yaml")["network"]
    found: dict[str, Any] = {}
    for name in sorted(set(rows.text("cluster").tolist())):
        of_cluster = rows.where(rows.text("cluster") == name)
        cluster = small_clusters.fit_cluster(of_cluster, links.get(name))
        found[name] = {
            "network": entries(cluster.network, cluster.network_error, units),
            "models": {model: _job(job) for model, job in cluster.models.items()},
        }
    return {"clusters": found}


def _job(job: Any) -> dict[str, Any]:
    """The constants of a model on a cluster, and its seconds of a GPU by batch."""
    constants = {name: rounded(getattr(job, name), 5) for name in small_clusters.MODEL_FIELDS}
    return {
        **constants,
        "batches": [rounded(batch, 6) for batch in job.batches],
        "gpu_s": [rounded(seconds, 5) for seconds in job.gpu_s],
    }


def write() -> None:
    """Write all three files."""
    for fitted in (vtrain, scaling, adaptdl):
        file = PUBLISHED / fitted.__name__ / "fitted.yaml"
        write_whole(file, yaml_text(HEADER, fitted()))


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    write()
