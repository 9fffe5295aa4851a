"""What a page shows, as a value.

A scenario's text or preset, with the values that were changed; in the address, and back.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from dpsim.base.errors import DpsimError

Query: TypeAlias = dict[str, list[str]]

MOST_BYTES = 2**20  # of a scenario's text, as in files
MOST_IN_ADDRESS = 30_000  # characters; servers and browsers cut longer ones
MOST_CHANGES = 200
_OWN = ("preset", "yaml", "file", "set")
_PINNED = "pin-"  # before the keys of the baseline
_BEFORE = "was"  # in an address: the changes of the set-up before the last, "" for none


@dataclass(frozen=True, slots=True)
class Spec:
    """One scenario: a preset's name or a text, and ``key=value`` changes of it, later ones last.

    ``file``: a text's name.
    """

    preset: str | None = None
    text: str | None = None
    file: str = "scenario.yaml"
    changes: tuple[str, ...] = ()

    def with_value(self, path: str, value: str) -> Spec:
        """The same with ``value`` (YAML) at ``path``, in place of earlier ones there and below."""
        return replace(self, changes=(*self._apart_from(path), f"{path}={value}"))

    def with_kind(self, path: str, key: str, kind: str) -> Spec:
        """The same with another kind of the part at ``path``.

        The changed fields of that part are no longer asked for.
        """
        return replace(self, changes=(*self._apart_from(path), f"{path}.{key}={kind}"))

    def with_options(self, options: Iterable[str]) -> Spec:
        """The same with ``key=value`` changes, in their order."""
        changed = self
        for option in options:
            path, _, value = option.partition("=")
            changed = changed.with_value(path, value)
        return changed

    def without(self, path: str) -> Spec:
        """The same with what is changed at ``path`` and below as it was."""
        return replace(self, changes=self._apart_from(path))

    def _apart_from(self, path: str) -> tuple[str, ...]:
        # Fields of a part, and entries of a list: kinds and lengths may be others afterwards.
        below = (f"{path}.", f"{path}[")
        kept = []
        for each in self.changes:
            changed, _, _ = each.partition("=")
            if changed != path and not each.startswith(below):
                kept.append(each)
        return tuple(kept)

    def to_query(self, prefix: str = "") -> Query:
        """As parts of an address."""
        query = {"preset": [self.preset or ""], "set": list(self.changes)}
        if self.text is not None:
            query |= {"yaml": [_packed(self.text)], "file": [self.file], "preset": [""]}
        # Addresses are read by people, too: what is empty is left out.
        return {prefix + key: values for key, values in query.items() if any(values)}

    @classmethod
    def from_query(cls, query: Mapping[str, list[str]], prefix: str = "") -> Spec | None:
        """What `to_query` wrote, None where the address says nothing.

        Raises DpsimError where it was cut or is too long.
        """
        preset, packed, file, changes = (query.get(prefix + key, []) for key in _OWN)
        if not preset and not packed:
            return None
        if len(changes) > MOST_CHANGES:
            raise DpsimError(
                f"the address must have at most {MOST_CHANGES} changed values, but has "
                f"{len(changes):,}"
            )
        if packed:
            return cls(None, _unpacked(packed[-1]), (file or ["scenario.yaml"])[-1], tuple(changes))
        return cls(preset[-1], changes=tuple(changes))


@dataclass(frozen=True, slots=True)
class View:
    """All that a page shows.

    A scenario, the baseline it is compared with, and each page's own choices by name. ``before``:
    the changes that the same set-up had before the last one, None where another was shown.
    """

    spec: Spec
    pinned: Spec | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] | None = None

    def after(self, last: View) -> View:
        """The same with what it is compared with taken from ``last``, which was shown before."""
        if last.spec == self.spec:
            return replace(self, before=last.before)
        is_same_set_up = replace(last.spec, changes=self.spec.changes) == self.spec
        return replace(self, before=last.spec.changes if is_same_set_up else None)

    @property
    def baseline(self) -> Spec | None:
        """What numbers are told against: what is pinned, or the set-up before the last change."""
        if self.pinned is not None:
            return self.pinned
        if self.before is None or self.before == self.spec.changes:
            return None
        return replace(self.spec, changes=self.before)

    def to_query(self) -> Query:
        """As parts of an address."""
        pinned = {} if self.pinned is None else self.pinned.to_query(_PINNED)
        before = {} if self.before is None else {_BEFORE: list(self.before or ("",))}
        return {
            **self.spec.to_query(),
            **pinned,
            **before,
            **{key: [value] for key, value in self.choices.items()},
        }

    @classmethod
    def from_query(cls, query: Mapping[str, list[str]], start: Spec) -> View:
        """What `to_query` wrote; the scenario is ``start``, changed, where the address names none.

        Raises DpsimError.
        """
        spec = Spec.from_query(query)
        if spec is None:
            changes = query.get("set", [])[:MOST_CHANGES]
            spec = replace(start, changes=(*start.changes, *changes))

        before = None
        if _BEFORE in query:
            before = tuple(each for each in query[_BEFORE][:MOST_CHANGES] if each)

        # Whatever is not of the scenarios is a page's own choice, which this need not know.
        own = {_BEFORE, *_OWN, *(_PINNED + key for key in _OWN)}
        choices = {key: values[-1] for key, values in query.items() if key not in own and values}
        return cls(spec, Spec.from_query(query, _PINNED), choices, before)


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def _unpacked(packed: str) -> str:
    """The text, of which no more is unpacked than a scenario may have."""
    try:
        # base64 wants its padding back. A kilobyte may unpack to a gigabyte: no more than may be.
        whole = packed + "=" * (-len(packed) % 4)
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.urlsafe_b64decode(whole), MOST_BYTES)
        if unpacking.unconsumed_tail:
            raise DpsimError(
                f"the scenario in the address must have at most {MOST_BYTES:,} bytes, but has more"
            )
        if not unpacking.eof:
            raise ValueError("the end is missing")
        return data.decode()
    except (binascii.Error, zlib.error, UnicodeError, ValueError) as error:
        # A DpsimError is a ValueError too, and says more than what stands below.
        if isinstance(error, DpsimError):
            raise
        raise DpsimError(
            "the address holds a scenario that cannot be read: it was cut, or changed on its way"
        ) from None
