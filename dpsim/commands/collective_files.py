"""Outputs of ``dpsim collective`` other than times: rounds, and files for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import save, show, show_answer, show_json
from dpsim.commands.options import read_option

if TYPE_CHECKING:
    from dpsim.network import MessageCosts
    from dpsim.topology import Network

_MOST_SHOWN = 64  # the most ranks whose transfers are listed


def show_steps(ranks: int | None, algorithm: str, operation: str, as_json: bool) -> None:
    """Show the rounds of a schedule of ranks with a node each."""
    from dpsim.collectives import algorithm as find_algorithm
    from dpsim.collectives import algorithm_names
    from dpsim.report.text.collective import rounds_text, transfers

    if ranks is None or ranks > _MOST_SHOWN:
        raise DpsimError(
            f"--steps: --ranks must be from 1 to {_MOST_SHOWN}, but "
            f"{'is missing' if ranks is None else f'got {ranks}'}"
        )
    # The default is a ring, which not every operation has.
    if operation != "all-reduce" and algorithm == "ring":
        algorithm = algorithm_names(operation)[0]
    schedule = find_algorithm(algorithm, operation).schedule(ranks)
    if not as_json:
        show(*rounds_text(schedule))
        return
    show_answer(
        "collective-steps",
        operation=operation,
        algorithm=algorithm,
        ranks=ranks,
        chunks=schedule.chunks,
        rounds=[transfers(each) for each in schedule.each_round()],
    )


def write_steps(
    html: Path,
    ranks: int | None,
    algorithms: str,
    operation: str,
    size: str,
    on: tuple[Network, MessageCosts] | None,
    itemsize: int,
) -> None:
    """Write a page that plays the rounds of one algorithm, or of two side by side.

    Rounds have times if ``on`` gives a network and the costs of its messages; otherwise ``ranks``
    is enough.
    """
    from dpsim.collectives import algorithm as find_algorithm
    from dpsim.network import MessageCosts, schedule_on
    from dpsim.report.pages.steps_page import MOST_BESIDE, steps_page
    from dpsim.studies.collective import algorithms_named, parse_size
    from dpsim.studies.walkthrough import MOST_RANKS, walk_through

    names = algorithms_named(algorithms, operation)
    if len(names) > MOST_BESIDE:
        raise DpsimError(
            f"--algorithm: must name at most {MOST_BESIDE} with --html, but got {len(names)}"
        )
    network, costs = on or (None, MessageCosts())
    if network is None and (ranks is None or ranks > MOST_RANKS):
        got = "is missing" if ranks is None else f"got {ranks}"
        raise DpsimError(f"--html: --ranks must be from 1 to {MOST_RANKS}, but {got}")

    nbytes = read_option("-b", parse_size, size)
    walkthroughs = []
    for name in names:
        chosen = find_algorithm(name, operation)
        schedule = chosen.schedule(ranks or 1) if network is None else schedule_on(network, chosen)
        walkthroughs.append(walk_through(schedule, nbytes, network, costs, itemsize))
    save(html, steps_page(walkthroughs))


def write_nccl_tuner(
    path: Path,
    cluster: str | None,
    nodes: int | None,
    sets: list[str],
    operation: str,
    sizes: list[int],
    itemsize: int,
    as_json: bool,
) -> None:
    """Write the best choice of NCCL at each size, as a file for its tuner plugin and as a table."""
    from dpsim.base.budget import limited
    from dpsim.report.text.collective import nccl_choices_table, nccl_tuner_text
    from dpsim.studies.collective import named_cluster
    from dpsim.studies.nccl_choices import nccl_choices

    if sizes[0] == 0:
        raise DpsimError("-b: must be above 0, but got '0'")
    if cluster is None:
        raise DpsimError("--nccl-tuner: must be given with --cluster, but got no cluster")
    with limited():
        choices = nccl_choices(named_cluster(cluster, nodes, sets)[0], sizes, operation, itemsize)
    save(path, nccl_tuner_text(choices))
    if as_json:
        show_json(choices.to_json())
    else:
        show(nccl_choices_table(choices))
