"""The front of time against cost: what no other configuration beats in both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def pareto_front(
    points: Iterable[T], time: Callable[[T], float], cost: Callable[[T], float]
) -> list[T]:
    """The points that no other is at least as good as in both and better in one; the fastest first.

    Of equal ones, the first.
    """
    front: list[T] = []
    for point in sorted(points, key=lambda each: (time(each), cost(each))):
        if not front or cost(point) < cost(front[-1]):
            front.append(point)
    return front
