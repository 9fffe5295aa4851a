"""Trust: the basis of this scenario's interval, and predictions beside measurements."""

from __future__ import annotations

import re
from pathlib import Path

import streamlit as st

import validate
from app import controls, state
from app.answers import trusted
from app.charts import chart, columns, table
from app.headline import sentence
from app.plain import plain
from app.published import published, quantity_of
from app.published import title as table_title
from app.waiting import run_in_background
from dpsim.base.errors import DpsimError
from dpsim.base.terminal import harmless
from dpsim.base.units import TIME, human
from dpsim.report.figures.measured_figure import Pair, measured_figure
from dpsim.report.text.errors import errors_table
from dpsim.report.text.explanation import basis_notes, measures_table, sources_table
from dpsim.report.text.model_error import WITHIN, within
from validate.records import RunRecord, load_run_records, run_records_in

MOST_BYTES = 20_000_000  # of an uploaded file, unpacked

_PUBLISHED, _RECORDED, _OWN = "published tables", "recorded runs", "your own runs"


def draw() -> None:
    """Draw the page."""
    _draw_interval()
    st.markdown("**Predictions beside measurements**")
    what = controls.switch("measured where", (_PUBLISHED, _RECORDED, _OWN), "trust", _PUBLISHED)
    {_PUBLISHED: _draw_published, _RECORDED: _draw_recorded, _OWN: _draw_own}[what]()


def _draw_interval() -> None:
    """Draw what the interval of the other pages' scenario is made of, and what would narrow it."""
    found = run_in_background("simulating steps", trusted, state.current().spec)
    if found is None:
        return
    trust, calibration = found
    ends = within(trust.interval.low, trust.interval.high)
    sentence(f"A step takes {human(trust.step_time_s, TIME, 3)}, {WITHIN} {ends}.")
    if trust.interval.sources:
        table(columns(sources_table(trust)))
    for note in (*basis_notes(trust), f"calibration  {calibration}"):
        # In a terminal, spaces separate the topic.
        st.caption(plain(": ".join(re.split(" {2,}", note.strip()))))
    if trust.measures:
        st.markdown("**What to measure to narrow it**")
        table(columns(measures_table(trust)))


def _draw_published() -> None:
    tables = published()
    errors = {table_title(kind): each["errors"] for kind, each in tables.items()}
    first = {"table": list(errors), "compared": [quantity_of(kind) for kind in tables]}
    table({**first, **columns(errors_table("", "table", errors))})
    st.caption(
        "Absolute percentage errors. The constants that predict a row are fitted without the row's "
        "group."
    )
    kind = controls.pick("table", list(tables), "table", next(iter(tables)), words=table_title)
    chosen, quantity = tables[kind], quantity_of(kind)
    # JSON has lists instead of `Pair`.
    rows = [Pair(*row) for row in chosen["rows"]]
    total = chosen["errors"]["n"]
    shown = f"{len(rows):,} rows" if len(rows) >= total else f"{len(rows):,} of {total:,} rows"
    name, below = table_title(kind), f"{shown} of {chosen['file']}"
    title = f"{name}: predicted against measured {quantity}<br><sub>{below}</sub>"
    chart(measured_figure({name: rows}, quantity, "s", title), key="published", height=560)


def _draw_recorded() -> None:
    folder = Path(str(validate.__file__)).parent / "recorded"
    # Only packed files: elastic.json beside them has another format.
    names = sorted(path.name for path in folder.glob("*.json.gz"))
    name = controls.pick("recorded runs", names, "recorded", names[0])
    _draw_comparison(list(load_run_records(folder / name).runs))


def _draw_own() -> None:
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
        _draw_comparison(records)


def _draw_comparison(records: list[RunRecord]) -> None:
    from validate.compare.comparison import Comparison
    from validate.compare.figure import comparison_figure

    found = Comparison(records)
    if found.overall is None:
        st.info("No run can be evaluated: no prediction, or the calibration was fitted on them.")
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
        st.caption(f"{fitted} runs that the calibration was fitted on are left out.")
