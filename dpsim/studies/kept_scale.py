"""The scale of compute times that a file's measured step gives, kept where other values change."""

from __future__ import annotations

from dpsim.engine import calibrated, fitted_factor
from dpsim.scenario import Document, Override, Scenario, apply_overrides, validate

_PATH = "calibration"


def scale_of(scenario: Scenario) -> dict[str, object] | None:
    """Return the scale that a measured step gives, as a calibration; None without such a step."""
    return None if scenario.fitted_to is None else fitted_factor(calibrated(scenario))


def kept_scale(document: Document, scenario: Scenario | None = None) -> Document:
    """Return the document with a measured step replaced by the scale that it gives the file.

    The step is of the file as it is: scaled to it anew, every variant would take just as long.
    ``scenario`` is the document's, where it is known.
    """
    scale = scale_of(scenario or validate(document, Scenario))
    if scale is None:
        return document
    return apply_overrides(document, [Override.of(_PATH, scale, _PATH)], Scenario)


def is_of_calibration(path: str) -> bool:
    """Return whether a path changes the calibration itself, so that no scale is to be kept."""
    return path.partition(".")[0] == _PATH
