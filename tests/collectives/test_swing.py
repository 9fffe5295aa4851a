import pytest

from dpsim.collectives.all_reduces.swing import partners


def test_rank_0_of_16_meets_those_at_1_and_minus_1_and_3_and_minus_5():
    assert [int(partners(16, step)[0]) for step in range(4)] == [1, 15, 3, 11]


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
def test_partners_meet_each_other_and_their_sums_never_overlap(ranks):
    received = [{rank} for rank in range(ranks)]
    for step in range(ranks.bit_length() - 1):
        partner = partners(ranks, step).tolist()
        assert [partner[other] for other in partner] == list(range(ranks))
        assert all(received[rank].isdisjoint(received[partner[rank]]) for rank in range(ranks))
        received = [received[rank] | received[partner[rank]] for rank in range(ranks)]
    assert all(len(found) == ranks for found in received)


def test_on_a_ring_they_are_nearer_than_powers_of_two():
    distances = [
        min(int(partners(64, step)[0]), 64 - int(partners(64, step)[0])) for step in range(6)
    ]
    assert distances == [1, 1, 3, 5, 11, 21]
