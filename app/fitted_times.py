"""Compute times fitted to a measured step, fixed while a scenario is varied."""

from __future__ import annotations

import json
from functools import lru_cache

from app.reading import admitted
from app.spec import Spec
from dpsim.engine import calibrated, fitted_factor


@lru_cache(maxsize=64)
def with_fitted_times(spec: Spec) -> Spec:
    """Return ``spec`` with the fitted factor on compute times instead of a measured step.

    Otherwise every changed scenario would be fitted to the measured step again, which does not
    apply to it. Raises DpsimError.
    """
    given = admitted(spec)
    if given.fitted_to is None:
        return spec
    return spec.with_value("calibration", json.dumps(fitted_factor(calibrated(given))))
