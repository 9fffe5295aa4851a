"""Jobs whose goodput tests ask for."""

import pytest

from dpsim.disturbance import CrashesConfig

DAY = 86_400.0
AT_ITS_OWN = pytest.mark.usefixtures("one_interval")


def crashes(**fields):
    return CrashesConfig.model_validate(fields)
