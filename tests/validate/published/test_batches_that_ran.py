"""Memory beside public tables: batches known to have run on a GPU must be predicted to fit."""

from functools import cache

import pytest

from dpsim.engine import memory_use
from validate.published.step_reference import TABLES
from validate.published.tables.csv_file import NotPredictedError
from validate.published.tables.packaged import packaged_rows
from validate.published.tables.scenario_files import ScenarioFolder


@cache
def shares(folder):
    """By status, and by what ran: the predicted share of a GPU's memory."""
    found = {"counted": {}, "apart": {}}
    made = ScenarioFolder(folder, keeps=False)
    for kind, table in (("single-gpu", "single_gpu.csv"), ("scaling", "scaling.csv")):
        rows = packaged_rows(table)
        read = TABLES[kind].reader(rows)
        for row in rows:
            try:
                step = read(row)
                scenario = made.scenario(step)
            except NotPredictedError:
                continue
            use, workload = memory_use(scenario), scenario.workload
            what = (
                use.gpu, use.model.name, use.model.tokens, workload.batch_per_gpu,
                workload.precision,
            )  # fmt: skip
            found[step.status][what] = use.held.total / use.capacity
    return found


def test_every_batch_that_is_known_to_have_run_fits(tmp_path):
    ran = shares(tmp_path)["counted"]
    assert len(ran) == 497  # as docs/explanation/memory.md says
    assert {what: share for what, share in ran.items() if share > 1} == {}


def test_of_those_with_a_caution_seven_are_over(tmp_path):
    """Three of them ran on V100s whose memory their table does not state."""
    apart = shares(tmp_path)["apart"]
    assert len(apart) == 65
    over = {(what[0], what[1], what[3]): share for what, share in apart.items() if share > 1}
    assert over == pytest.approx(
        {
            ("k80", "resnet50", 128): 1.073,
            ("v100-sxm2-16gb", "bert-large", 16): 1.018,
            ("v100-sxm2-16gb", "bert-large", 8): 1.018,
            ("rtx-4090", "bert-large", 16): 1.016,
            ("v100-pcie-16gb", "resnet152", 128): 1.526,
            ("v100-pcie-16gb", "inception-v4", 128): 1.461,
            ("v100-pcie-16gb", "densenet161", 64): 1.093,
        },
        abs=1e-3,
    )
