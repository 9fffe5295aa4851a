"""The Pareto front of time against cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def pareto_front(
    points: Iterable[T], time: Callable[[T], float], cost: Callable[[T], float]
) -> list[T]:
    """Return the Pareto-optimal points, fastest first.

    No other point is at least as good in both and better in one. Of equal points the first is kept.
    """
    front: list[T] = []
    for point in sorted(points, key=lambda each: (time(each), cost(each))):
        if not front or cost(point) < cost(front[-1]):
            front.append(point)
    return front
