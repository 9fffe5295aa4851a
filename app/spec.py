"""The state of a page, as a value.

It is a scenario's text or preset with the changed values, and can be converted to an address and
back.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from urllib.parse import urlencode

from dpsim.base.errors import DpsimError

Query: TypeAlias = dict[str, list[str]]

MOST_BYTES = 2**20  # of a scenario's text, as for files
MOST_IN_ADDRESS = 30_000  # characters; servers and browsers cut longer ones
MOST_CHANGES = 200
_KEYS = ("preset", "yaml", "file", "set")
MOST_COMPARED = 6
_PREVIOUS_KEY = "was"  # in an address: the changes of the set-up before the last, "" for none


@dataclass(frozen=True, slots=True)
class Spec:
    """A scenario: a preset's name or a text, and ``key=value`` changes applied in order.

    ``file``: the name of the text.
    """

    preset: str | None = None
    text: str | None = None
    file: str = "scenario.yaml"
    changes: tuple[str, ...] = ()

    def with_value(self, path: str, value: str) -> Spec:
        """Return a copy with ``value`` (YAML) at ``path`` instead of the value there and below."""
        return replace(self, changes=(*self.without(path).changes, f"{path}={value}"))

    def with_options(self, options: Iterable[str]) -> Spec:
        """Return a copy with ``key=value`` changes, in their order."""
        changed = self
        for option in options:
            path, _, value = option.partition("=")
            changed = changed.with_value(path, value)
        return changed

    def without(self, path: str) -> Spec:
        """Return a copy without the changes at ``path`` and below."""
        # Fields of a part, and entries of a list: another value may have other kinds and lengths.
        gone = (f"{path}=", f"{path}.", f"{path}[")
        kept = tuple(each for each in self.changes if not each.startswith(gone))
        return replace(self, changes=kept)

    def to_query(self, prefix: str = "") -> Query:
        """Return the parts of an address."""
        query = {"preset": [self.preset or ""], "set": list(self.changes)}
        if self.text is not None:
            query |= {"yaml": [_packed(self.text)], "file": [self.file], "preset": [""]}
        # Addresses are read by users, too: leave out empty parts.
        return {prefix + key: values for key, values in query.items() if any(values)}

    @classmethod
    def from_query(cls, query: Mapping[str, list[str]], prefix: str = "") -> Spec | None:
        """Return the spec that `to_query` wrote, or None if the address has none.

        Raises DpsimError if it was cut or is too long.
        """
        preset, packed, file, changes = (query.get(prefix + key, []) for key in _KEYS)
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
    """The complete state of a page.

    It holds a scenario, the compared ones, and each page's options by name. ``before``: the
    changes of the same set-up before the last one, None after another set-up.
    """

    spec: Spec
    compared: tuple[Spec, ...] = ()
    choices: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] | None = None

    def after(self, last: View) -> View:
        """Return a copy whose comparison is taken from ``last``, the previous view."""
        if last.spec == self.spec:
            return replace(self, before=last.before)
        is_same_set_up = replace(last.spec, changes=self.spec.changes) == self.spec
        return replace(self, before=last.spec.changes if is_same_set_up else None)

    @property
    def baseline(self) -> Spec | None:
        """The baseline of numbers: the set-up before the last change."""
        if self.before is None or self.before == self.spec.changes:
            return None
        return replace(self.spec, changes=self.before)

    def to_query(self) -> Query:
        """Return the parts of an address."""
        compared: Query = {}
        for number, each in enumerate(self.compared, 1):
            compared |= each.to_query(f"{number}-")
        before = {} if self.before is None else {_PREVIOUS_KEY: list(self.before or ("",))}
        return {
            **self.spec.to_query(),
            **compared,
            **before,
            **{key: [value] for key, value in self.choices.items()},
        }

    def address(self) -> str | None:
        """Return the query of an address; None if it would be too long for one."""
        query = urlencode(self.to_query(), doseq=True)
        return query if len(query) <= MOST_IN_ADDRESS else None

    @classmethod
    def from_query(cls, query: Mapping[str, list[str]], start: Spec) -> View:
        """Return the view that `to_query` wrote; ``start`` with changes where no scenario is given.

        Raises DpsimError.
        """
        spec = Spec.from_query(query)
        if spec is None:
            changes = query.get("set", [])[:MOST_CHANGES]
            spec = replace(start, changes=(*start.changes, *changes))

        before = None
        if _PREVIOUS_KEY in query:
            before = tuple(each for each in query[_PREVIOUS_KEY][:MOST_CHANGES] if each)

        # All other keys are options of pages, whose meaning is unknown here.
        prefixes = [f"{number}-" for number in range(1, MOST_COMPARED + 1)]
        known = {_PREVIOUS_KEY, *_KEYS, *(prefix + key for prefix in prefixes for key in _KEYS)}
        choices = {key: values[-1] for key, values in query.items() if key not in known and values}
        compared = (Spec.from_query(query, prefix) for prefix in prefixes)
        return cls(spec, tuple(each for each in compared if each is not None), choices, before)


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def _unpacked(packed: str) -> str:
    """Return the text, unpacked up to the size limit of a scenario."""
    try:
        # base64 needs its padding back. A kilobyte may unpack to a gigabyte: limit it.
        whole = packed + "=" * (-len(packed) % 4)
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.urlsafe_b64decode(whole), MOST_BYTES)
        text = data.decode() if unpacking.eof else ""
    except (zlib.error, ValueError):
        is_whole = False
    else:
        is_whole = unpacking.eof
        if unpacking.unconsumed_tail:
            raise DpsimError(
                f"the scenario in the address must have at most {MOST_BYTES:,} bytes, but has more"
            )
    if not is_whole:
        raise DpsimError(
            "the address holds a scenario that cannot be read: it was cut, or changed on its way"
        )
    return text
