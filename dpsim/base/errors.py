"""The errors that users see.

Their tree::

    DpsimError (ValueError)    the input cannot be used: place, rule and value
    ├── ScenarioError          a scenario file, with file:line:column of every problem in it
    ├── UnknownNameError       an unknown name, with the nearest known one
    └── FailedError            the input is valid, but the request failed or cannot be done on
                               this machine
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DpsimError(ValueError):
    """The user's input cannot be used.

    The command line prints the message and exits with ``status``, which is 2.
    """

    status = 2


class ScenarioError(DpsimError):
    """A scenario file that cannot be used.

    Each line of the message is one problem with its place.
    """


class FailedError(DpsimError):
    """The input is valid, but the request failed or cannot be done on this machine.

    ``status`` is 1.
    """

    status = 1


def without_remedies(error: DpsimError) -> str:
    """Return only the problem; messages state remedies after a semicolon."""
    return str(error).partition(";")[0]


def how_to_install(extra: str) -> str:
    """Return the instruction for a missing optional part.

    The instruction never has the bare name, which is another project's in the public index.
    """
    return f"install the extra from the checkout: pip install -e '.[{extra}]'"


_CATALOGUES = {"GPU": "gpus", "link": "links", "node": "nodes", "model": "models"}


_DESCRIBABLE = ("GPU", "link", "node")
_HOW_TO_DESCRIBE = "; a {what} of your own may be written inline, or added by dpsim catalogue add"


class UnknownNameError(DpsimError):
    """An unknown name."""

    def __init__(self, what: str, name: object, known: Iterable[str]) -> None:
        self.what = what
        self.name = name
        self.known = sorted(known)
        listed = f" (dpsim catalogue {_CATALOGUES[what]} lists them)" if what in _CATALOGUES else ""
        near = suggestion(str(name), self.known) or listed
        how_to_describe = _HOW_TO_DESCRIBE.format(what=what) if what in _DESCRIBABLE else ""
        super().__init__(f"must be a known {what}, but got {name!r}{near}{how_to_describe}")


_SHORTEST_START = 3  # least characters of a name's beginning that identify it


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'ring'?)"`` for the nearest known name.

    If none is near, the whole list if that is short, else nothing.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    if not near and len(name) >= _SHORTEST_START:
        near = [known for known in names if known.startswith(name.lower())]
    if near:
        return f" (did you mean {near[0]!r}?)"
    if names and len(names) <= 12:
        return f" (known: {', '.join(names)})"
    return ""
