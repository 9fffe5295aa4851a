"""Results as one self-contained HTML page.

It has a question, table, figures, assumptions, calibration, and omissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

from dpsim.base.provenance import __version__
from dpsim.base.units import DATA, RATE, TIME, amount, human, size
from dpsim.engine import PARTS, Run
from dpsim.report.figures.batch_figures import (
    cost_figure,
    epochs_figure,
    has_targets,
    time_to_target_figure,
    utilisation_figure,
)
from dpsim.report.figures.resource_figures import footprint_figure, staleness_figure
from dpsim.report.figures.scaling_figures import algorithms_figure, knobs_figure, scaling_figure
from dpsim.report.figures.step_figures import (
    breakdown_figure,
    step_distribution_figure,
)
from dpsim.report.figures.style import Answer
from dpsim.report.figures.timeline_figure import called_by, timeline_figure
from dpsim.report.pages.document import document, figure_html, folded, table_html
from dpsim.report.pages.result_files import Source, as_printed
from dpsim.report.text.tables import calibration_note
from dpsim.workload import constants_file

MOST_ROWS = 200
MOST_BARS = 20
_EXTREMES_SUMMARY = "The slowest and the fastest worker in this step"
_ASSUMPTIONS = (
    "A link carries its nominal rate times the share that messages reach; flows that share it get "
    "max-min fair shares.",
    "A transfer takes its route's latency and its bytes at that rate; a collective's rounds "
    "follow one another at each rank.",
    "Every worker computes the same model on as many samples; only the scenario's disturbances "
    "vary from step to step.",
    "Overlapped communication and computation do not slow each other down.",
)
_NOT_MODELLED = (
    "Codecs' times and memory use are formulas that were not measured.",
    "Overheads of a communication library are left out if the all-reduce's library is ideal.",
    "A GPU uses one network card; copies to a GPU do not contend with gradients, nor do other "
    "jobs unless they are given.",
    "Quirks of virtual machines, switches and drivers are left out, and clocks that drop under "
    "load or heat.",
    "A model that is split over several GPUs as well as replicated.",
)


def report_page(sources: Sequence[Source]) -> str:
    """Return one page over ``sources``, at least one.

    Raises DpsimError for results that no command printed.
    """
    with as_printed(", ".join(source.name for source in sources)):
        figures = [figure_html(figure) for source in sources for figure in source_figures(source)]
        return _page(sources, figures)


def run_page(run: Run) -> str:
    """Return the page of one run that has recorded a step.

    The page adds the timeline of that step, a typical worker first, and the distribution of all
    steps, which only a run has.
    """
    source = Source(run.result.name, "run", (run.result.to_json(),), (run.result.name,))
    workers = run.extremes()
    # If all workers are alike, one of them has all three roles, and is shown once.
    others = {who: worker for who, worker in workers.items() if worker != workers["typical"]}
    figures = [
        *map(figure_html, source_figures(source)),
        figure_html(_timeline(run, {"typical": workers["typical"]})),
        *([folded(_EXTREMES_SUMMARY, figure_html(_timeline(run, others)))] if others else []),
        figure_html(step_distribution_figure(run.result)),
    ]
    return _page([source], figures)


def _timeline(run: Run, workers: Mapping[str, int]) -> go.Figure:
    """Draw the timeline of some of `Run.extremes` in the recorded step."""
    called = called_by(workers)
    intervals = [each for number in called for each in run.intervals(workers=[number])]
    return timeline_figure(intervals, called)


def _page(sources: Sequence[Source], figures: Iterable[str]) -> str:
    first = sources[0]
    question = _ANSWERS[first.kind].question.format(
        name=first.rows[0].get("name", first.name), source=first.name, rows=len(first.rows)
    )
    # The assumptions behind predictions of steps do not apply to collectives and explanations.
    answers = [
        row for source in sources if _ANSWERS[source.kind].predicts_steps for row in source.rows
    ]
    sections = [
        *(
            _section(f"Results of {source.name}", _ANSWERS[source.kind].table(source))
            for source in sources
        ),
        _section("Figures", "\n".join(figures)),
        _section("Assumptions", _list(_assumptions(answers))),
        _section(
            "Calibration and its error",
            _list(_calibrations(answers) or ["These results name no calibration."]),
        ),
        _section("Not modelled", _list(_NOT_MODELLED)),
    ]
    body = (
        f'<h1>dpsim report</h1><p class="question">{escape(question)}</p>\n{"".join(sections)}'
        f"<footer>{escape(_provenance(answers))}</footer>"
    )
    return document(question, body)


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>\n{body}</section>\n"


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _by_throughput(source: Source) -> list[tuple[str, Answer]]:
    """Return the rows with their labels, the fastest first."""
    labelled = zip(source.labels, source.rows, strict=True)
    return sorted(labelled, key=lambda pair: -pair[1]["throughput_samples_per_s"])


def _collective_row(label: str, row: Answer) -> dict[str, str]:
    return {
        "algorithm": label,
        "size": size(row["bytes"]),
        "time": human(row["time_s"], TIME),
        "algbw": human(row["algbw_Bps"], RATE),
        "busbw": human(row["busbw_Bps"], RATE),
    }


def _table(source: Source) -> str:
    """Return an HTML table of the rows, limited to the first `MOST_ROWS`."""
    labelled, order = list(zip(source.labels, source.rows, strict=True)), ""
    if source.kind == "sweep":  # whose points have no better order
        labelled, order = _by_throughput(source), " by throughput"
    left_out = ""
    if len(labelled) > MOST_ROWS:
        left_out = f"<p>The first {MOST_ROWS} of {len(labelled):,} rows{order}.</p>"
    columns = _collective_row if source.kind == "collective" else _result_row
    shown = [columns(label, row) for label, row in labelled[:MOST_ROWS]]
    # Not every row has every column: tokens are counted only for models of text.
    keys = list(dict.fromkeys(key for row in shown for key in row))
    return left_out + table_html(keys, ([row.get(key, "") for key in keys] for row in shown))


def _result_row(label: str, row: Answer) -> dict[str, str]:
    step, parts = row["step_time_s"], row["parts_s"]
    cost: dict[str, Any] | None = row.get("cost")
    spent = {}
    if cost is not None:
        heading = f"{cost['currency']} per million samples"
        spent[heading] = amount(cost["per_million_samples"], 4)
    return {
        "scenario": label,
        "workers": f"{row['workers']:,}",
        "step": human(step["mean"], TIME),
        "95 % over seeds": f"{human(step['low'], TIME)} to {human(step['high'], TIME)}",
        **_model_error(row),
        PARTS["compute"].words: human(parts["compute"], TIME, 3),
        PARTS["exposed_comm"].words: human(parts["exposed_comm"], TIME, 3),
        "waiting": human(parts["straggler_wait"] + parts["input"], TIME, 3),
        **_rates(row),
        "efficiency": f"{row['scaling_efficiency']:.1%}",
        "sent per worker": human(row["bytes_sent_per_worker"], DATA, 3),
        **spent,
    }


def _model_error(row: Answer) -> dict[str, str]:
    """Return the interval of the measured step by the models' errors, and its extrapolations."""
    interval = row.get("interval_s")
    if interval is None:
        return {}
    heading = f"{interval['confidence']:.0%} by the model's error"
    cells = {heading: f"{human(interval['low'], TIME)} to {human(interval['high'], TIME)}"}
    if interval["extrapolated"]:
        cells["extrapolated"] = "; ".join(interval["extrapolated"])
    return cells


def _rates(row: Answer) -> dict[str, str]:
    """Return samples per second, and for text tokens per second and MFU."""
    cells = {"samples/s": amount(row["throughput_samples_per_s"])}
    tokens, mfu = row.get("tokens_per_s"), row.get("mfu")
    if tokens is not None:
        cells["tokens/s"] = amount(tokens)
        cells["MFU"] = "" if mfu is None else f"{mfu:.1%}"
    return cells


def source_figures(source: Source) -> Iterator[go.Figure]:
    """Return the figures of one source."""
    return _ANSWERS[source.kind].figures(source)


def chief_figure(source: Source) -> go.Figure:
    """Return the figure that answers a source's main question."""
    figures = [*source_figures(source)]
    return figures[min(_ANSWERS[source.kind].chief, len(figures) - 1)]


def _step_figures(source: Source) -> Iterator[go.Figure]:
    """Draw the parts of steps, and how throughput grows with workers if they differ."""
    best = _by_throughput(source)[:MOST_BARS]
    yield breakdown_figure([row for _, row in best], [label for label, _ in best])
    if len({row["workers"] for row in source.rows}) > 1:
        yield scaling_figure(_fastest_by_workers(source.rows))


def _scale_figures(source: Source) -> Iterator[go.Figure]:
    """Draw steps, and the effect of batches and GPUs on training to the target, if it is known."""
    yield from _step_figures(source)
    rows = source.rows
    if len({row.get("batch_per_gpu") for row in rows}) > 1:
        yield utilisation_figure(rows)
    if has_targets(rows):
        yield epochs_figure(rows)
        yield time_to_target_figure(rows)
        yield cost_figure(rows)


def _run_figures(source: Source) -> Iterator[go.Figure]:
    """Draw the step, the staleness of gradients and the memory."""
    yield from _step_figures(source)
    first = source.rows[0]
    if any(first["staleness"][kind]["max"] for kind in ("versions", "clock_gap")):
        yield staleness_figure(first)
    if first.get("memory") is not None:
        yield footprint_figure(first["memory"])


def _fastest_by_workers(rows: Iterable[Answer]) -> list[Answer]:
    # Sort from the slowest, so that the fastest for each number of workers is kept.
    best: dict[int, Answer] = {}
    for row in sorted(rows, key=lambda each: float(each["throughput_samples_per_s"])):
        best[row["workers"]] = row
    return list(best.values())


def _provenance(answers: Sequence[Answer]) -> str:
    lines: list[str] = []
    for each in answers:
        versions = each.get("provenance", {})
        line = ", ".join(f"{key} {value}" for key, value in versions.items())
        if "provenance" in each and line not in lines:
            lines.append(line)
    seeds = sorted({each["seed"] for each in answers if "seed" in each})
    if seeds:
        lines.append(f"seeds {', '.join(map(str, seeds))}")
    return "; ".join(lines or [f"dpsim {__version__}"])


def _assumptions(answers: Iterable[Answer]) -> list[str]:
    """Return the assumptions behind ``answers``, and their own notes."""
    lines = list(_ASSUMPTIONS)
    for each in answers:
        lines += [f"{each['name']}: {note}" for note in each.get("notes", ())]
        energy = each.get("energy")
        if energy is not None:
            lines.append(
                f"Energy: each GPU draws {energy['gpu_power_W']:g} W ({energy['source']})."
            )
    # State each line once, because variants share most of them.
    return list(dict.fromkeys(lines))


def _calibrations(answers: Iterable[Answer]) -> list[str]:
    """Return the sources of the times of ``answers`` and their errors, each once."""
    used = [each["calibration"] for each in answers if "calibration" in each]
    notes = list(dict.fromkeys(map(calibration_note, used)))
    if "catalogue" in used:
        # Errors of the fitted constants on models that were left out of the fit.
        split = "each publisher left out"
        error = constants_file()["errors"][split]["all"]
        notes.append(
            f"Errors of the catalogue's compute times: median {error['median']:.0%}, mean "
            f"{error['mean']:.0%} over {error['n']} published rows ({split})."
        )
    return notes


@dataclass(frozen=True, slots=True)
class _AnswerPage:
    """How the answer of one command is shown.

    ``question`` contains the first scenario (``name``), the file (``source``) or the number of
    ``rows``. ``predicts_steps``: whether it depends on assumptions on steps and their calibration.
    ``chief``: the index of the main one of ``figures``, if there are as many.
    """

    question: str
    table: Callable[[Source], str] = _table
    figures: Callable[[Source], Iterator[go.Figure]] = _step_figures
    predicts_steps: bool = True
    chief: int = 0


_ANSWERS: Mapping[str, _AnswerPage] = {
    "run": _AnswerPage(
        "How long does a step of {name} take, and where does its time go?", figures=_run_figures
    ),
    "compare": _AnswerPage("Which of {rows} variants of {name} is fastest, and why?"),
    # Throughput is the second figure, after the parts of a step.
    "scale": _AnswerPage("How far does {name} scale?", figures=_scale_figures, chief=1),
    "sweep": _AnswerPage("Which of {rows} scenarios of {source} is best, and why?"),
    "collective": _AnswerPage(
        "Which algorithm is fastest at which size?",
        figures=lambda source: iter([algorithms_figure(source.rows)]),
        predicts_steps=False,
    ),
    "explain": _AnswerPage(
        "What limits {name}, and which changes help?",
        table=lambda source: _list(source.rows[0]["advice"]),
        figures=lambda source: iter([knobs_figure(source.rows[0])]),
        predicts_steps=False,
    ),
}
