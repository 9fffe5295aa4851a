"""The scale of compute times that a file's measured step gives, kept where other values change."""

from __future__ import annotations

from dpsim.engine import calibrated, fitted_factor
from dpsim.scenario import Document, Override, Scenario, apply_overrides, validate

PATH = "calibration"


def kept_scale(document: Document) -> Document:
    """Return the document with a measured step replaced by the scale that it gives the file.

    The step is of the file as it is: scaled to it anew, every variant would take just as long.
    """
    scenario = validate(document, Scenario)
    if scenario.fitted_to is None:
        return document
    scale = fitted_factor(calibrated(scenario))
    return apply_overrides(document, [Override.of(PATH, scale, PATH)], Scenario)
