"""What tests of studies share."""

import numpy as np
import pytest


@pytest.fixture
def one_interval(monkeypatch):
    """Only the job's own interval is simulated: to try others takes seventeen times as long."""
    monkeypatch.setattr("dpsim.studies.goodput.study._FACTORS", np.ones(1))
