"""Compute times fitted to a measured step, fixed while a scenario is varied."""

from __future__ import annotations

import json
from functools import lru_cache

from app.reading import scenario
from app.spec import Spec
from dpsim.studies.kept_scale import scale_of


@lru_cache(maxsize=64)
def with_fitted_times(spec: Spec) -> Spec:
    """Return ``spec`` with the fitted factor on compute times instead of a measured step.

    Otherwise every changed scenario would be fitted to the measured step again, which does not
    apply to it. Raises DpsimError.
    """
    scale = scale_of(scenario(spec))
    return spec if scale is None else spec.with_value("calibration", json.dumps(scale))
