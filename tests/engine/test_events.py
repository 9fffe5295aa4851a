"""Events are the reference: where the vector path says that it is exact, both say the same."""

import numpy as np
import pytest
from random_jobs import Drawing

from dpsim.engine import Steps, bytes_in_step, exact_for, slow_downs
from dpsim.engine.events import run_events
from dpsim.engine.events.lines import Line
from dpsim.engine.together import run_together

PARTS = ("compute", "exposed_comm", "straggler_wait", "overlapped_comm", "input", "encode")
CASES = 60
MANY = 1_200


def claimed_exact(folder, seed):
    """The first job that is drawn from ``seed`` for which the vector path says that it is exact."""
    drawing = Drawing(folder, seed)
    while True:
        job = drawing.job()
        if exact_for(job) is None:
            return job


def by_both(job, monkeypatch):
    """The steps by either engine, and the bytes that events sent."""
    sent = []
    opened = Line.open

    def counted(line, group, span):
        sent.append(line.parties[group].model.traffic(line.nbytes).total)
        return opened(line, group, span)

    monkeypatch.setattr(Line, "open", counted)
    factors = slow_downs(job)
    vector = run_together(job, factors, lambda done: None)
    return vector, run_events(job, factors, lambda done: None), sum(sent)


def assert_equal(job, vector: Steps, events: Steps, sent):
    scale = vector.step.mean()
    for part in PARTS:
        np.testing.assert_allclose(
            getattr(events, part), getattr(vector, part), rtol=1e-9, atol=1e-9 * scale, err_msg=part
        )
    for counts in ("clock_gap", "versions"):
        np.testing.assert_array_equal(getattr(events, counts), getattr(vector, counts), counts)
    assert sent == sum(bytes_in_step(job, step) for step in range(len(vector.step)))


@pytest.mark.parametrize("seed", range(CASES))
def test_both_engines_agree_where_the_vector_path_says_that_it_is_exact(
    tmp_path, monkeypatch, seed
):
    job = claimed_exact(tmp_path, seed)
    assert_equal(job, *by_both(job, monkeypatch))


@pytest.mark.long
@pytest.mark.parametrize("block", range(12))
def test_both_engines_agree_in_many_cases(tmp_path, monkeypatch, block):
    """A hundred cases a block; together they have every kind of every part."""
    for seed in range(CASES + block * 100, CASES + (block + 1) * 100):
        job = claimed_exact(tmp_path, seed)
        with monkeypatch.context() as patch:
            assert_equal(job, *by_both(job, patch))
