"""Compute constants fitted without a row, for rows that the shipped ones are fitted to.

``left_out.json`` beside the tables has the fits without each publisher (for the largest publisher
of language models: without each of its models). They are written to a profile beside the row's
scenario, which ``dpsim run`` then uses. Written by ``python -m tools.refits.compute_refit``.
"""

from __future__ import annotations

from dataclasses import replace

from dpsim.base.shipped import shipped_json
from dpsim.hardware import CalibrationProfile, Parameter, Residuals
from dpsim.scenario import Scenario
from dpsim.workload import CONSTANTS, composed, members_of, of_products
from validate.published.tables.published_step import PublishedStep
from validate.published.tables.scenario_files import file_name

FILE = "left_out.json"
_NOT_KEPT = Residuals(
    counted_on="held-out rows", n=0, median_ape=0, mean_ape=0, p95_ape=0, worst_ape=0, worst_bytes=0
)


def unseen(step: PublishedStep, group: str, scenario: Scenario) -> PublishedStep:
    """Return the row, to be predicted by constants of a fit without its ``group``.

    ``scenario`` is the row's. If the fit had no row of the group, the shipped constants are kept.
    """
    values = shipped_json("validate.published", FILE).get(group)
    if values is None or "calibration" in step.scenario:
        return step
    workload, model = scenario.workload, scenario.build_model()
    generation = scenario.cluster.accelerator.architecture
    members = members_of(model, generation, workload.precision, workload.words)
    constants = of_products(composed(values, members))
    profile = CalibrationProfile(
        name=f"constants without {group}",
        kind="compute",
        constants={name: Parameter(value=getattr(constants, name), unit="1") for name in CONSTANTS},
        residuals=_NOT_KEPT,
    )
    name = file_name(" ".join(["without", group, *members.values()])) + ".json"
    return replace(
        step,
        scenario={**step.scenario, "calibration": name},
        files={**step.files, name: profile.to_json()},
        constants=f"shipped, without {group}",
    )
