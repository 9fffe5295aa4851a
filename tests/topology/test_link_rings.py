"""Rings that direct links close: how many of known meshes, and never more than the links carry."""

from collections import Counter
from functools import cache
from itertools import combinations, pairwise, permutations

import numpy as np
import pytest

from dpsim.hardware import links, nodes
from dpsim.topology import gpu_rings

ONE = links()["nvlink2"]


def rings_of(name, gpus):
    """The rings over some GPUs of a node of the catalogue, by the links between them."""
    node = nodes()[name]
    direct = [edge for edge in node.expand_edges() if edge[2].name.startswith(("nvlink", "xgmi-"))]
    return gpu_rings([f"gpu{place}" for place in gpus], direct)


@pytest.mark.parametrize(
    ("node", "rate", "links_of_first"),
    [
        # By the number of GPUs, from 2 on, in links. vTrain's V100 measured 1, 4, 1.7, 3.9 and 6 on
        # 2, 4, 5, 7 and 8.
        ("dgx1-v100", 25e9, [1, 2, 4, 2, 2, 4, 6]),
        ("dgx1-p100", 20e9, [1, 2, 3, 1, 2, 3, 4]),
        ("mi300x-8gpu", 64e9, [1, 2, 3, 4, 5, 6, 7]),
        ("frontier-mi250x", 50e9, [4, 1, 2, 2, 2, 3, 4]),
        ("alps-gh200", 25e9, [6, 12, 18]),
        ("azure-nc-a100-v4", 25e9, [12, 0, 0]),
    ],
)
def test_rings_over_the_first_gpus_of_known_meshes(node, rate, links_of_first):
    found = [rings_of(node, range(gpus)).rate / rate for gpus in range(2, len(links_of_first) + 2)]
    assert found == pytest.approx(links_of_first)


def test_any_four_of_a_dgx1_count_by_their_own_links():
    """GPU 4 joins its half by two links to GPU 0, and GPUs 1 and 2 not at all."""
    assert rings_of("dgx1-v100", [4, 5, 6, 7]).rate == 4 * 25e9
    assert rings_of("dgx1-v100", [0, 3, 4, 7]).rate == 2 * 25e9
    assert rings_of("dgx1-v100", [1, 2, 4]).rate == 0


@pytest.mark.parametrize("node", ["dgx1-v100", "dgx1-p100", "mi300x-8gpu", "frontier-mi250x"])
def test_rings_visit_every_gpu_and_no_link_carries_more_than_it_can(node):
    for count in range(2, 9):
        for gpus in combinations(range(8), count) if count in (5, 6) else [range(count)]:
            found = rings_of(node, gpus)
            check_visits(found.rings, len(gpus))
            crossed = Counter(hop for ring in found.rings for leg in ring for hop in pairwise(leg))
            for (a, b), times in crossed.items():
                joined = {f"gpu{gpus[a]}", f"gpu{gpus[b]}"}
                edges = nodes()[node].expand_edges()
                rate = sum(e[2].rate.value * e[3] for e in edges if set(e[:2]) == joined)
                assert times * found.each <= rate


def check_visits(rings, gpus):
    for ring in rings:
        assert [leg[0] for leg in ring[1:]] == [leg[-1] for leg in ring[:-1]]
        assert ring[0][0] == ring[-1][-1] == 0
        assert sorted(leg[0] for leg in ring) == list(range(gpus))


@pytest.mark.parametrize("seed", range(30))
def test_as_many_as_trying_every_ring_finds(seed):
    rng = np.random.default_rng(seed)
    gpus = int(rng.integers(3, 6))
    counts = np.triu(rng.integers(0, 3, (gpus, gpus)), 1)
    edges = [
        (f"gpu{a}", f"gpu{b}", ONE, int(counts[a, b])) for a, b in np.argwhere(counts).tolist()
    ]
    whole, half = (most_by_trying(tuple((parts * counts).ravel())) / parts for parts in (1, 2))
    if max(whole, half):  # a ring through a third GPU is none of these
        found = gpu_rings([f"gpu{place}" for place in range(gpus)], edges)
        assert found.rate / ONE.rate.value == max(whole, half)


def most_by_trying(counts):
    """The most edge-disjoint directed Hamiltonian cycles, by every choice of them."""
    gpus = round(len(counts) ** 0.5)
    links = np.array(counts).reshape(gpus, gpus)
    cycles = [
        [(a * gpus + b) for a, b in pairwise((0, *rest, 0))]
        for rest in permutations(range(1, gpus))
    ]

    @cache
    def most(free):
        best = 0
        for hops in cycles:
            if all(free[hop] for hop in hops):
                left = list(free)
                for hop in hops:
                    left[hop] -= 1
                best = max(best, 1 + most(tuple(left)))
        return best

    return most(tuple((links + links.T).ravel().tolist()))
