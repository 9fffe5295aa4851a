"""The scale of compute times by a file's measured step, which is kept if other values change."""

from __future__ import annotations

from dpsim.engine import calibrated, fitted_factor
from dpsim.scenario import Document, Override, Scenario, apply_overrides, validate

_PATH = "calibration"


def scale_of(scenario: Scenario) -> dict[str, object] | None:
    """Return the scale by a measured step, as a calibration; None without such a step."""
    return None if scenario.fitted_to is None else fitted_factor(calibrated(scenario))


def kept_scale(document: Document, scenario: Scenario | None = None) -> Document:
    """Return the document with a measured step replaced by the scale that it gives.

    Otherwise every variant would be scaled to take as long as the unchanged file. ``scenario`` is
    the document's, if known.
    """
    scale = scale_of(scenario or validate(document, Scenario))
    if scale is None:
        return document
    return apply_overrides(document, [Override.of(_PATH, scale, _PATH)], Scenario)


def is_of_calibration(path: str) -> bool:
    """Return whether a path changes the calibration itself, which then has its own scale."""
    return path.partition(".")[0] == _PATH
