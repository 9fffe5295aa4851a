"""Compute times of a measured step, while what is beside them is varied."""

import re

from app_pages import QUICK, html

from app.reading import scenario, with_fitted_times
from app.spec import Spec
from app.words import changes
from dpsim.engine import calibrated

MEASURED = Spec("resnet50-256-p100-50gbe", changes=QUICK)


def test_a_fitted_factor_gives_the_times_of_the_measured_step():
    held = with_fitted_times(MEASURED)
    assert scenario(held).calibration.source.startswith("fitted to Goyal et al. 2017")
    factors = [calibrated(scenario(spec)).compute_scale for spec in (MEASURED, held)]
    assert factors[0] == factors[1] != 1
    assert with_fitted_times(held) == held


def test_only_another_fitted_factor_is_listed_as_a_change():
    held = with_fitted_times(MEASURED)
    assert changes(MEASURED, held) == ""
    faster = held.with_value("calibration.compute_scale", "0.5")
    assert changes(held, faster).endswith(" to 0.5")


def test_a_slow_worker_does_not_change_the_times_of_the_others(open_page):
    page = open_page("stragglers", preset=MEASURED.preset, set=QUICK, choices={"sync": "bsp"})
    (kept,) = re.findall(r"With slow workers BSP keeps (\d+)% of its throughput", html(page))
    # Twice the compute time in steps of which nearly all is computing.
    assert 50 <= int(kept) <= 60


def test_another_batch_uses_the_fitted_times(open_page):
    page = open_page(
        "compare", preset=MEASURED.preset, set=QUICK, choices={"vary": "workload.batch_per_gpu"}
    )
    (found,) = page.dataframe
    batches = [int(batch) for batch in found.value.iloc[:, 0]]
    rates = [float(rate.replace(",", "")) for rate in found.value["samples/s"]]
    of_batch = dict(zip(batches, rates, strict=True))
    # Twice the samples take longer than the step that was measured with half of them.
    assert 1 < of_batch[64] / of_batch[32] < 1.2
