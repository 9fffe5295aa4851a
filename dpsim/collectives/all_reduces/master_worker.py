"""Master-worker all-reduce.

Every rank sends its vector to rank 0, which adds them up and sends the sum to all.

Exact, for m > 1: 2 alpha + 2 (m-1) S beta + (m-1) S gamma, and o per message: o for a worker's one,
(m-1) o for the master's. Source: the centralised baseline, for instance Li et al., "Scaling
distributed machine learning with the parameter server", OSDI 2014, with a single server.
"""

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Phase, Schedule, fixed, ranks_array


def compile_master_worker(layout: RankLayout) -> Schedule:
    """Compile two rounds: m-1 messages to rank 0, m-1 messages from it."""
    ranks = layout.ranks
    workers = ranks_array(ranks)[1:]
    gather = Phase(workers, fixed(workers * 0), fixed(workers * 0), reduce=True)
    spread = Phase(workers * 0, fixed(workers), fixed(workers * 0), reduce=False)
    return Schedule("all-reduce", "master-worker", ranks, 1, (gather, spread) if ranks > 1 else ())


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: m o + 2 alpha + 2 (m-1) S beta + (m-1) S gamma."""
    ranks = layout.ranks
    if ranks == 1:
        return 0.0
    at_master = (ranks - 1) * chunking.total * (2 * costs.beta + costs.gamma)
    # Workers post at once, which takes one overhead; the master posts its m-1 answers one after
    # the other.
    return ranks * costs.overhead + 2 * costs.alpha + at_master


ALGORITHM = Algorithm(
    "all-reduce",
    "master-worker",
    "rank 0 collects every vector, adds them up and sends the sum to everyone",
    "Li et al., OSDI 2014 (one server)",
    compile_master_worker,
    exact_time,
)
