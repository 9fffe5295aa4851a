"""``dpsim explain``: explain a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show, show_answer, show_json, table
from dpsim.commands.help import Commands, Group
from dpsim.commands.options import File, Itemsize, Json, Operation, Sets
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from rich.table import Table

    from dpsim.network.libraries.nccl import Explanation

_OF_A_FILE = "scenario"

Uncertain = Annotated[
    bool,
    typer.Option(
        "--uncertainty",
        help="Also show which uncertain inputs widen the step's interval, by Sobol indices.",
    ),
]
Cluster = Annotated[str, typer.Option(help="Cluster: a scenario file, or a node of the catalogue.")]
Library = Annotated[str, typer.Option(help="Library of the collective: nccl.")]
Nodes = Annotated[int | None, typer.Option(min=1, max=2**20, help="Number of nodes.")]
Size = Annotated[str, typer.Option("-b", "--begin", help="Size: 8, 4K, 1M (binary), 1 MB.")]
Algorithm = Annotated[
    str, typer.Option(help="auto, or the algorithm that NCCL must use: ring, tree or in-network.")
]


class _FileOrCommand(Group):
    """A group in which ``dpsim explain FILE`` is ``dpsim explain scenario FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Treat a first word that is not a command's name as a file, or as an option before one."""
        if args and args[0] not in (*self.commands, "--help"):
            args = [_OF_A_FILE, *args]
        return super().parse_args(ctx, args)


explain_app = Commands(
    "Explain a prediction: dpsim explain FILE for a scenario, dpsim explain collective for one "
    "collective.",
    cls=_FileOrCommand,
)
_TERMS = {
    "latency": "latency: the time of a call with almost no data",
    "transfer": "transfer: the bytes at the rate of the largest sizes",
    "ramp": "ramp: filling the pipeline, less what overlaps",
}


@explain_app.callback()
def _explain() -> None:
    """Explain a prediction: of a scenario (FILE), or of one collective."""


@explain_app.command(_OF_A_FILE)
def scenario(
    file: File,
    set_: Sets = None,
    uncertainty: Uncertain = False,
    as_json: Json = False,
) -> None:
    """Explain what limits a scenario: its critical path, the gain of each knob, and advice.

    The word scenario may be left out.

    Example: dpsim explain scenarios/quickstart.yaml
    Example: dpsim explain scenarios/quickstart.yaml --uncertainty
    """
    from dpsim.scenario import load_scenario
    from dpsim.studies.explain import KNOBS, explain

    loaded = load_scenario(file, set_ or ())
    with progress("turning knobs", len(KNOBS)) as done:
        explanation = explain(loaded, done, say=narrate, uncertainty=uncertainty)
    if as_json:
        show_json(explanation.to_json())
        return
    from dpsim.report.text.explanation import (
        alternatives_table,
        explanation_notes,
        knobs_table,
        path_table,
        refused_alternatives,
        straggler_notes,
        uncertainty_notes,
        uncertainty_table,
    )

    show(
        path_table(explanation.path, explanation.base.name),
        "",
        knobs_table(explanation),
        "",
        *explanation_notes(explanation),
    )
    if explanation.stragglers is not None:
        stragglers = explanation.stragglers
        show("", *straggler_notes(stragglers), "", alternatives_table(stragglers))
        show(*refused_alternatives(stragglers))
    if explanation.uncertainty is not None:
        inputs = explanation.uncertainty
        show("", uncertainty_table(inputs), "", *uncertainty_notes(inputs))


@explain_app.command()
def collective(
    cluster: Cluster,
    library: Library = "nccl",
    nodes: Nodes = None,
    size: Size = "1M",
    operation: Operation = "all-reduce",
    algorithm: Algorithm = "auto",
    itemsize: Itemsize = 4,
    as_json: Json = False,
) -> None:
    """Show which algorithm and protocol a library chooses for a collective, and why.

    Also shows from which sizes on it would choose differently.

    Example: dpsim explain collective --cluster dgx-h100 --library nccl -b 1M
    """
    from dpsim.network.libraries import TRAITS, library_model
    from dpsim.studies.collective import named_cluster, parse_size

    able = [name for name, each in TRAITS.items() if each.weighs_protocols]
    if library not in able:
        raise DpsimError(
            f"--library must be {' or '.join(able)}, which chooses between algorithms and "
            f"protocols, but got {library!r}"
        )
    # Models of libraries that weigh protocols can explain their choice.
    model: Any = library_model(
        library,
        algorithm,
        named_cluster(cluster, nodes)[0],
        operation=operation,
        itemsize=itemsize,
    )
    nbytes = parse_size(size)
    # Sending nothing needs no algorithm, so there is no choice to explain.
    if nbytes == 0:
        raise DpsimError("-b: must be above 0, but got '0'")
    explanation = model.explain(nbytes)
    if as_json:
        show_answer("explain-collective", operation=operation, **explanation.to_json())
    else:
        _show(explanation)


def _show(explanation: Explanation) -> None:
    from dpsim.base.units import DATA, TIME, human
    from dpsim.report.text.collective import nearest_notes
    from dpsim.report.text.model_error import WITHIN, extrapolation_notes, within_cell

    show(
        f"{explanation.nbytes:,} B by {explanation.chosen}: {human(explanation.predicted, TIME)}, "
        f"{WITHIN} {within_cell(explanation.interval)}",
        f"why: {explanation.reason}",
        "",
    )
    if explanation.rivals:
        show(_rivals(explanation), "")
    for term, seconds in explanation.terms.items():
        # A single rank takes no time.
        share = seconds / explanation.predicted if explanation.predicted else 0.0
        show(f"  {_TERMS[term]}: {human(seconds, TIME, 3)}, {share:.0%}")
    show(f"most of it is {explanation.dominant}")
    for word, change in (("down", explanation.below), ("up", explanation.above)):
        if change is not None:
            show(f"from {human(change[0], DATA, 3)} {word} it would be {change[1]}")
    show(f"constants: {', '.join(explanation.constants)}")
    show(*nearest_notes(explanation.nearest_machines), *extrapolation_notes([explanation.interval]))


def _rivals(explanation: Explanation) -> Table:
    from dpsim.base.units import TIME, human
    from dpsim.report.text.model_error import WITHIN, within_cell

    headings = ("algorithm/protocol", "NCCL's own estimate", "predicted time", WITHIN)
    rows = (
        (
            rival.name + (" (chosen)" if rival.name == explanation.chosen else ""),
            human(rival.nccl_estimate, TIME, 3),
            human(rival.predicted, TIME, 3),
            within_cell(rival.interval),
        )
        for rival in explanation.rivals
    )
    return table("", headings, rows, left=headings[:1])
