"""Round by round: what ranks hold is what the schedule does, and the last time is the whole's."""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import ALGORITHMS, algorithm, contributions, traffic
from dpsim.network import MessageCosts, RoundsModel
from dpsim.studies.walkthrough import walk_through
from dpsim.topology import UniformSwitch

NBYTES = 2**20
COSTS = MessageCosts(overhead=1e-6, gamma=1e-10)


@pytest.fixture(params=ALGORITHMS, ids=lambda each: f"{each.operation}-{each.name}")
def schedule(request):
    return request.param.schedule(6)


def test_it_ends_as_the_operation_promises_when_the_model_says(schedule):
    network = UniformSwitch(6, 1e9, 1e-6)
    walked = walk_through(schedule, NBYTES, network, COSTS)
    last = walked.rounds[-1]
    assert ((last.held == walked.wanted) | np.isnan(walked.wanted)).all()
    whole = RoundsModel(schedule, network, COSTS).finish(np.zeros(6), NBYTES)
    assert last.seconds == pytest.approx(whole.finishes.max(), rel=1e-9)
    assert sum(each.loads for each in walked.rounds) == pytest.approx(whole.loads)
    assert last.sent == traffic(schedule, NBYTES, 4).total


def test_a_ring_of_three_on_paper():
    """Rank 1 adds its own chunk 0 to rank 0's in the first round: so lectures have it."""
    before, first, *_ = contributions(algorithm("ring").schedule(3))
    assert before[1, 0].tolist() == [0, 1, 0]
    assert first[1, 0].tolist() == [1, 1, 0]
    assert first[0, 0].tolist() == [1, 0, 0]


def test_only_the_requested_operation_counts():
    """Of a broadcast that is the root's vector, of an all-gather each rank's own chunk."""
    broadcast = walk_through(algorithm("tree", "broadcast").schedule(4), NBYTES)
    assert broadcast.counts[:, 0].tolist() == [True, False, False, False]
    gathered = walk_through(algorithm("ring", "all-gather").schedule(4), NBYTES)
    assert (gathered.counts == np.eye(4, dtype=bool)).all()
    assert gathered.rounds[0].seconds is None


def test_more_ranks_than_letters_are_refused():
    with pytest.raises(DpsimError, match="at most 16 ranks to be shown round by round, but has 17"):
        walk_through(algorithm("ring").schedule(17), NBYTES)
