"""Results side by side: variants of a scenario, or numbers of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import TIME, amount, human
from dpsim.engine import PartName, Result
from dpsim.report.text.model_error import WITHIN, within_cell
from dpsim.report.text.tables import headings, rate_cells, total_cells

if TYPE_CHECKING:
    from dpsim.studies.compare import Comparison, Scaling

_LARGEST_PERCENTAGE = 9.0  # relative change; larger changes are written as a factor
# The parts of a step that comparisons show, by heading; other parts seldom differ.
_PARTS_COMPARED: dict[str, PartName] = {
    "computing": "compute",
    "exposed comm.": "exposed_comm",
    "waiting": "straggler_wait",
}


def comparison_table(found: Comparison) -> Table:
    """Return variants side by side, best first, with the change of the ranking's figure."""
    changes = [found.change(row) for row in found.rows]
    # The best is equivalent to itself, which needs no mark.
    alike = [row is not found.best and bool(found.is_best_too(row)) for row in found.rows]
    ranking = found.ranking
    made = compare_table(
        [(row.values, row.result) for row in found.rows],
        changes,
        alike,
        # Beside the step, a change of time needs no heading of its own.
        change=None if ranking.is_time else f"change of {ranking.title}",
        money=ranking.of_money,
    )
    made.title = f"ranked by {ranking.title}"
    return made


def scaling_table(found: Scaling) -> Table:
    """Return a row for each number of nodes."""
    numbered = zip(found.nodes, found.results, strict=True)
    rows = [({"nodes": str(count)}, result) for count, result in numbered]
    return compare_table(rows, errors=True)


def compare_table(
    rows: Iterable[tuple[Mapping[str, str], Result]],
    changes: Iterable[float | None] | None = None,
    alike: Iterable[bool] | None = None,
    *,
    change: str | None = None,
    errors: bool = False,
    money: bool = False,
) -> Table:
    """Return variants side by side, in the order given.

    A field that a variant does not set is ``-``. ``changes`` are relative, under the heading
    ``change``; by default of the step time against the first. Variants that are ``alike`` are
    marked. With ``errors`` the interval of the step by the models' errors is shown, with ``money``
    list prices even if the scenario has neither a total nor a price.
    """
    listed = list(rows)
    results = [result for _, result in listed]
    figures = _figures(results, money=money)
    first = results[0].step_time_s["mean"]
    if changes is None:
        changes = [result.step_time_s["mean"] / first - 1 for result in results]

    paths = dict.fromkeys(path for variant, _ in listed for path in variant)
    varied = headings(paths)
    # Parts that are zero in all results are left out.
    parts = {
        heading: part
        for heading, part in _PARTS_COMPARED.items()
        if any(result.parts_s[part] > 0 for result in results)
    }
    interval_heading = [WITHIN] if errors else []
    numbers = ("step", *interval_heading, change or "change", *parts, *figures[0], "efficiency")
    rows_of_cells = []
    marks = [False] * len(listed) if alike is None else alike
    for (variant, result), rates, share, marked in zip(
        listed, figures, changes, marks, strict=True
    ):
        cells = (
            *(variant.get(path, "-") for path in paths),
            human(result.step_time_s["mean"], TIME),
            *([within_cell(result.interval)] if errors else []),
            f"~ {_change(share)}" if marked else _change(share),
            *(human(result.parts_s[part], TIME, 3) for part in parts.values()),
            *rates.values(),
            f"{result.scaling_efficiency:.1%}",
        )
        rows_of_cells.append(cells)
    return table("", (*varied, *numbers), rows_of_cells, left=varied)


def _figures(results: Iterable[Result], *, money: bool) -> list[dict[str, str]]:
    """Return the rates of each result by heading, and their costs if requested."""
    listed = list(results)
    # Columns of tokens only if some model reads text.
    tokens = any(result.utilisation.tokens_per_s is not None for result in listed)
    figures = [rate_cells(result, tokens=tokens) for result in listed]
    totals = [result.total for result in listed]
    has_totals = money or any(totals) or any(result.cost is not None for result in listed)
    prices = [result.spending for result in listed if result.spending.hourly is not None]
    if has_totals and prices:
        currencies = {each.currency for each in prices}
        currency = next(iter(currencies)) if len(currencies) == 1 else None
        for cells, result in zip(figures, listed, strict=True):
            cells.update(_spending_cells(result, currency, tokens=tokens))
    if any(totals):
        for cells, total in zip(figures, totals, strict=True):
            cells.update(total_cells(total))
    return figures


def _change(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share:+.1%}" if share < _LARGEST_PERCENTAGE else f"x {1 + share:,.0f}"


def _spending_cells(result: Result, currency: str | None, *, tokens: bool) -> dict[str, str]:
    """Return price and energy per million samples, or tokens if ``tokens``, by heading.

    ``currency`` is the common one of all prices; None if there are several, which cells then show.
    """
    # If text and image models are compared, the image models have no tokens.
    text = result.utilisation.tokens_per_s or 0.0
    rate = text if tokens else result.throughput_samples_per_s
    unit = "M tokens" if tokens else "M samples"
    price = result.spending.price(1e6 / rate) if rate else None
    money = "" if price is None else amount(price)
    if price is not None and currency is None:
        money += f" {result.spending.currency}"
    cells = {f"{currency or 'price'}/{unit}": money}
    # A total has its own column for energy.
    if result.total is None:
        energy = result.energy if rate else None
        cells[f"kWh/{unit}"] = "" if energy is None else amount(energy.power_W / rate / 3.6)
    return cells
