"""The site's page "predicted against measured", from stored tables and recorded runs.

It has a figure for each: points on the line are exact predictions. The errors come from the same
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.published import TABLES, published
from dpsim.report.figures.measured_figure import Pair, measured_figure
from dpsim.report.pages.document import figure_html
from validate.compare.comparison import Comparison
from validate.records import load_run_records

# All pages with figures are one folder below the site's root, where this file is.
LOAD_PLOTLY = '<script src="../plotly-basic.min.js"></script>'

_ERRORS = ("median_ape", "mean_ape", "p95_ape")
_RECORDED = Path(__file__).parents[1] / "validate" / "recorded"
_PUBLISHED_SAYS = (
    "Tables that others published, each row as dpsim predicts it from its description; what "
    "constants saw of them stands on the page of accuracy."
)
_RECORDED_SAYS = (
    "Real processes with limited links, on the testbed; runs that calibration was fitted on do not "
    "count."
)


@dataclass(frozen=True, slots=True)
class Case:
    """A comparison: its quantity, its errors over all cases, and some of its points.

    ``errors``: as stored with published tables, of all ``n`` cases that count.
    """

    name: str
    file: str
    what: str
    unit: str
    errors: Mapping[str, float]
    pairs: Sequence[Pair]

    @property
    def rows(self) -> int:
        """The number of cases that count."""
        return int(self.errors["n"])


def measured_page() -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Predicted against measured"
    yield ""
    yield (
        "Each point is a case. On the dashed line the prediction is right, in the band it is "
        "within 25 %; upright lines are intervals that are to hold in nine of ten cases. "
        "[Accuracy](accuracy.md) says how each part was compared, what was left out, and why the "
        "misses are misses."
    )
    yield from ("", LOAD_PLOTLY)
    for title, said, cases in (
        ("Published tables", _PUBLISHED_SAYS, [*published_cases()]),
        ("Recorded on real ranks", _RECORDED_SAYS, [*recorded_cases()]),
    ):
        yield from ("", f"## {title}", "", said, "", *_errors(cases))
        for case in cases:
            yield from _section(case)


def published_cases() -> Iterator[Case]:
    """Yield the published tables, with predictions as last computed."""
    for kind, table in published().items():
        file, what, unit = TABLES[kind]
        pairs = [Pair(*row) for row in table["rows"]]
        yield Case(kind, file, what, unit, table["errors"], pairs)


def recorded_cases() -> Iterator[Case]:
    """Yield the files of runs on the testbed."""
    for path in sorted(_RECORDED.glob("*.json.gz")):
        found = Comparison(list(load_run_records(path).runs))
        assert found.overall is not None
        pairs = [pair for of_kind in found.pairs.values() for pair in of_kind]
        errors = {name: getattr(found.overall, name) for name in ("n", *_ERRORS)}
        # A table of published steps has the same name.
        name = f"recorded-{path.name.partition('.')[0]}"
        yield Case(name, path.name, "time", "s", errors, pairs)


def _errors(cases: Sequence[Case]) -> Iterator[str]:
    """Yield a table of absolute percentage errors."""
    yield "| | compared | cases | median error | mean | 95th percentile | inside the interval |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for case in cases:
        # Recorded runs have no intervals.
        inside = f"{case.errors['coverage']:.0%}" if "coverage" in case.errors else ""
        cells = (
            f"[{case.name}](#{case.name})",
            case.what,
            f"{case.rows:,}",
            *(f"{case.errors[error]:.1%}" for error in _ERRORS),
            inside,
        )
        yield f"| {' | '.join(cells)} |"


def _section(case: Case) -> Iterator[str]:
    count = f"{case.rows:,} cases"
    if len(case.pairs) < case.rows:
        count = f"{len(case.pairs):,} of {count}"
    yield ""
    yield f"### {case.name}"
    yield ""
    yield f"{count} of `{case.file}`."
    yield ""

    title = f"{case.name}: predicted against measured {case.what}"
    yield figure_html(measured_figure({"cases": case.pairs}, case.what, case.unit, title))
