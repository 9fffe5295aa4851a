"""``dpsim trust``: the error of a prediction, its sources, and what would reduce it."""

from __future__ import annotations

from dpsim.base.terminal import show, show_json
from dpsim.commands.options import File, Json, Sets


def trust(file: File, set_: Sets = None, as_json: Json = False) -> None:
    """Show how far a prediction may be off, the sources of error, and what to measure.

    The 90% interval is from published held-out measurements. Lists the sources of error, the
    nearest measurements, and the intervals after measurements of your own.

    Example: dpsim trust scenarios/quickstart.yaml
    """
    from dpsim.engine import run_scenario
    from dpsim.scenario import load_scenario
    from dpsim.studies.explain import trust as explain_trust

    error_basis = explain_trust(run_scenario(load_scenario(file, set_ or ())))
    if as_json:
        show_json(error_basis.to_json())
        return
    from dpsim.report.text.explanation import basis_notes, measures_table, sources_table

    show(sources_table(error_basis), "", *basis_notes(error_basis))
    if error_basis.measures:
        show("", measures_table(error_basis))
