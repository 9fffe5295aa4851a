"""Collectives of the algorithms on ideal links, on clusters drawn from the schema."""

from __future__ import annotations

from random import Random

import drawn
import pytest
from rescaled import as_fast, with_faster_links

from dpsim.base.errors import DpsimError
from dpsim.collectives import ALGORITHMS
from dpsim.studies.collective import CollectiveRow, collective_rows
from dpsim.topology import ClusterConfig, build_cluster

BLOCK = 30  # clusters of a test
BLOCKS = 10
TRIED = 2  # algorithms on each
SIZES = (4096, 1_000_000)
EXACT = 1e-9


def rows(cluster: ClusterConfig, name: str, operation: str, kind: str) -> list[CollectiveRow]:
    network = build_cluster(cluster)
    return list(collective_rows(network, [name], SIZES, operation=operation, kind=kind))


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(n, marks=pytest.mark.wide) for n in range(1, BLOCKS))]
)
def test_a_collective_on_a_drawn_cluster_keeps_the_laws(block: int) -> None:
    """Links carry at most their rate; twice as fast ones are no slower; time scales."""
    tried = 0
    for number in range(block * BLOCK, (block + 1) * BLOCK):
        cluster = drawn.cluster(number)
        faster = ClusterConfig.model_validate(with_faster_links(cluster, 2.0))
        scaled = ClusterConfig.model_validate(as_fast(cluster, 4.0))
        for one in Random(number).sample(ALGORITHMS, TRIED):
            of = one.name, one.operation, "flows" if number % 2 else "auto"
            try:
                base = rows(cluster, *of)
            except DpsimError:
                continue  # an algorithm of other numbers of ranks
            for own, quick, fourth in zip(base, rows(faster, *of), rows(scaled, *of), strict=True):
                reported = number, of, own
                assert own.max_utilisation <= 1 + EXACT, reported
                assert quick.time_s <= own.time_s * (1 + EXACT), reported
                assert 4 * fourth.time_s == pytest.approx(own.time_s, rel=1e-6), reported
                tried += 1
    assert tried > BLOCK
