"""Trust: predictions beside measurements, published, recorded and the user's own.

Also the source of this scenario's times.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import controls, state
from app.charts import chart, columns, table
from app.plain import plain
from app.published import computing_errors, measured, published
from app.published import title as table_title
from app.reading import scenario
from app.titles import title
from dpsim.base.errors import DpsimError
from dpsim.base.terminal import harmless
from dpsim.report.figures.measured_figure import Pair, measured_figure
from dpsim.report.text.errors import errors_table
from dpsim.scenario import Scenario
from validate.records import RunRecord, load_run_records, run_records_in

MOST_BYTES = 20_000_000  # of an uploaded file, unpacked

_PUBLISHED, _RECORDED, _OWN = "published tables", "recorded runs", "your own runs"


def draw() -> None:
    """Draw the page."""
    st.subheader("How far to trust a prediction", anchor=False)
    _calibration()
    what = controls.switch("measured where", (_PUBLISHED, _RECORDED, _OWN), "trust", _PUBLISHED)
    {_PUBLISHED: _published, _RECORDED: _recorded, _OWN: _own}[what]()


def _calibration() -> None:
    """Draw the calibration of the other pages' scenario, and the error of such predictions."""
    try:
        given = scenario(state.current().spec)
    except DpsimError as error:
        st.error(plain(str(error)))
        return
    st.markdown(f"**{plain(title(given))}**: {plain(_said(given))}")


def _said(given: Scenario) -> str:
    if given.scaling is not None:
        return given.scaling.description
    profile = given.profile
    if profile is not None:
        return f"as measured in the calibration profile {profile.name!r}, {profile.residuals}."
    found = computing_errors()
    return (
        "compute times are from the GPU's figures and fitted constants, not measured. Published "
        "steps whose publisher was left out of the fit are off by "
        f"{found['median']:.0%} in the median and "
        f"{found['mean']:.0%} on average ({found['n']:,} rows)."
    )


def _published() -> None:
    tables = published()
    errors = {table_title(kind): each["errors"] for kind, each in tables.items()}
    first = {"table": list(errors), "compared": [measured(kind) for kind in tables]}
    table({**first, **columns(errors_table("", "table", errors))})
    st.caption(
        "Absolute percentage errors. What a row's own group contributed is left out of the "
        "constants that predict it."
    )
    kind = controls.pick("table", list(tables), "table", next(iter(tables)), words=table_title)
    chosen, what = tables[kind], measured(kind)
    # JSON has lists instead of `Pair`.
    rows = [Pair(*row) for row in chosen["rows"]]
    every = chosen["errors"]["n"]
    shown = f"{len(rows):,} rows" if len(rows) >= every else f"{len(rows):,} of {every:,} rows"
    median = f"median error {chosen['errors']['median_ape']:.1%}"
    name, below = table_title(kind), f"{shown} of {chosen['file']}; {median}"
    title = f"{name}: predicted against measured {what}<br><sub>{below}</sub>"
    chart(measured_figure({name: rows}, what, "s", title), key="published", height=560)


def _recorded() -> None:
    import validate

    folder = Path(str(validate.__file__)).parent / "recorded"
    # Unpacked files are not recorded runs.
    files = sorted(folder.glob("*.json.gz"))
    if not files:
        st.info(
            "This version comes without recorded runs. On Linux, as root, `python -m "
            "validate.run` makes some on the testbed: "
            "upload them under “your own runs”."
        )
        return
    name = controls.pick("recorded runs", [path.name for path in files], "recorded", files[0].name)
    try:
        _comparison(list(load_run_records(folder / name).runs))
    except DpsimError as error:
        st.error(plain(str(error)))


def _own() -> None:
    given = st.file_uploader(
        "files of runs, as dpsim validate writes them",
        type=["json", "gz"],
        accept_multiple_files=True,
        key="runs",
        max_upload_size=5,  # MB, packed
    )
    records: list[RunRecord] = []
    for file in given:
        try:
            records += run_records_in(file.name, file.getvalue(), MOST_BYTES).runs
        except DpsimError as error:
            st.error(plain(str(error)))
    if records:
        _comparison(records)


def _comparison(records: list[RunRecord]) -> None:
    from validate.compare.comparison import Comparison
    from validate.compare.figure import comparison_figure

    found = Comparison(records)
    if found.overall is None:
        st.info("No run counts: none has a prediction, or calibration was fitted on all of them.")
        return

    chart(comparison_figure(found), key="compared", height=560)

    groups = {"all": found.overall, **found.groups}
    errors = {harmless(name): score.to_json() for name, score in groups.items()}
    worst = {"worst case": [harmless(score.worst) for score in groups.values()]}
    table({**columns(errors_table("", "cases of", errors)), **worst})

    st.markdown("**The worst cases**")
    for cause in found.worst:
        st.markdown(f"- {plain(str(cause))}")
    fitted = sum(record.fitted for record in records)
    if fitted:
        st.caption(f"{fitted} runs that calibration was fitted on do not count.")
