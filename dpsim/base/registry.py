"""Named members of one kind: all-reduce algorithms, models, GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from dpsim.base.errors import UnknownNameError

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A read-only mapping from name to member.

    An unknown name raises an error with the nearest known one.
    """

    def __init__(self, what: str, members: Mapping[str, T]) -> None:
        self.what = what
        self._members = dict(members)

    def __getitem__(self, name: str) -> T:
        try:
            return self._members[name]
        except KeyError:
            raise UnknownNameError(self.what, name, self._members) from None

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"<{len(self)} {self.what}s: {', '.join(self)}>"
