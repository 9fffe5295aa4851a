"""Every microbenchmark, by name, and the loop over those requested in a run."""

from __future__ import annotations

from collections.abc import Callable

from dpsim.base.registry import Registry
from validate.microbench.benchmark import Benchmark, Row
from validate.microbench.codecs import CODECS
from validate.microbench.collectives import COLLECTIVES
from validate.microbench.device_rates import COPIES, PRODUCTS, REDUCTION
from validate.microbench.layers import LAYERS
from validate.microbench.learners import LEARNERS
from validate.microbench.point_to_point import POINT_TO_POINT
from validate.microbench.settings import Settings
from validate.microbench.steps import BESIDE, OPTIMIZER, SPREAD
from validate.ranks.processes import World

_MEMBERS = (
    COLLECTIVES,
    POINT_TO_POINT,
    REDUCTION,
    COPIES,
    LAYERS,
    OPTIMIZER,
    CODECS,
    LEARNERS,
    PRODUCTS,
    SPREAD,
    BESIDE,
)
BENCHMARKS: Registry[Benchmark] = Registry(
    "microbenchmark", {benchmark.name: benchmark for benchmark in _MEMBERS}
)

Report = Callable[[Row], None]
Progress = Callable[[str, int, int | None], None]


def run_benchmarks(world: World, settings: Settings, report: Report, progress: Progress) -> None:
    """Run the requested benchmarks, one after another.

    On rank 0, ``report`` gets each row, and ``progress`` the benchmark's name and the number of its
    rows so far, of an unknown total (None). A row has ``what``, the benchmark's name; one of a
    benchmark that cannot run has the reason in ``not_run``. With ``at_once``, all ranks run the
    benchmarks that otherwise only rank 0 runs.
    """
    for name in settings.what:
        benchmark = BENCHMARKS[name]
        if reason := benchmark.missing(world):
            _on_rank_0(world, report, {"what": name, "not_run": reason})
        elif benchmark.on_all_ranks or settings.at_once:
            _run(benchmark, world, settings, report, progress)
        else:
            with world.on_rank_0(f"microbench/{name}") as mine:
                if mine:
                    _run(benchmark, world, settings, report, progress)


def _run(
    benchmark: Benchmark, world: World, settings: Settings, report: Report, progress: Progress
) -> None:
    for number, row in enumerate(benchmark.rows(world, settings), 1):
        _on_rank_0(world, report, {"what": benchmark.name, **row})
        if world.rank == 0:
            progress(benchmark.name, number, None)


def _on_rank_0(world: World, report: Report, row: Row) -> None:
    if world.rank == 0:
        report(row)
