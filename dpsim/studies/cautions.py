"""Cautions about several results, each once, with the results that it applies to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dpsim.engine import Result

_MOST_NAMES = 4  # names that are listed


def cautions(results: Iterable[tuple[str, Result]]) -> list[str]:
    """Return extrapolations and warnings of named results, with the names unless all have them."""
    listed = list(results)
    names_by_caution: dict[str, list[str]] = {}
    for name, result in listed:
        extrapolated = () if result.interval is None else result.interval.extrapolated
        texts = [
            *(f"extrapolated: {each}" for each in extrapolated),
            *(f"warning: {each}" for each in result.warnings),
        ]
        for text in dict.fromkeys(texts):
            names_by_caution.setdefault(text, []).append(name)
    return [
        text if len(names) == len(listed) else f"{text} ({_join_names(names)})"
        for text, names in names_by_caution.items()
    ]


def unequal_batches(batches: Mapping[str, int]) -> list[str]:
    """Return a caution if global batches (samples a step) differ; ``batches`` is by name."""
    low, high = (
        f"{size:,} ({_join_names([name for name in batches if batches[name] == size])})"
        for size in (min(batches.values()), max(batches.values()))
    )
    if low == high:
        return []
    return [
        f"global batches differ, from {low} to {high}: "
        "the samples to the same accuracy then differ, which this ignores"
    ]


def _join_names(names: list[str]) -> str:
    # Semicolons, because names of variants may have commas.
    more = len(names) - _MOST_NAMES
    return "; ".join(names[:_MOST_NAMES]) + (f"; and {more:,} more" if more > 0 else "")
