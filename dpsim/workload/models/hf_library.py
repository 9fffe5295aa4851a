"""Models of any other ``config.json``, built by the transformers library and traced.

The library is an extra, ``hf``. It runs in a separate process with limits of time and memory, and
without network access (`hf_traced`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from dpsim.base.child import Child
from dpsim.base.errors import DpsimError, FailedError, UnknownNameError, how_to_install
from dpsim.workload.layer import Model
from dpsim.workload.models import hf_traced
from dpsim.workload.models.built import Images, Tokens

_FAMILY = re.compile(r"[\w.-]+")


def library_entry(
    values: Mapping[str, Any], source: str, name: str, own: Iterable[str]
) -> Images | Tokens:
    """Return the model of a configuration that the library knows.

    Raises DpsimError if the library is not installed (the error lists the ``own`` families, which
    do not need it), or does not know the family.
    """
    family = values["model_type"]
    if not _FAMILY.fullmatch(family):
        raise DpsimError(f"{source}: {UnknownNameError('model_type', family, own)}")
    # Importing them would take seconds.
    if find_spec("transformers") is None or find_spec("torch") is None:
        raise DpsimError(
            f"{source}: {UnknownNameError('model_type', family, own)}; any other needs the "
            f"transformers library: {how_to_install('hf')}"
        )
    built = _Built(dict(values), source, name)
    main, usual, longest = built.in_child(hf_traced.described)
    if main == "pixel_values":
        return Images(built)
    return Tokens(built, usual, longest, hf_traced.unit(main))


@dataclass(frozen=True)
class _Built:
    """Builds the model of a configuration, for a sequence length if it has one."""

    values: dict[str, Any]
    source: str
    name: str

    def __call__(self, length: int | None = None) -> Model:
        model: Model = self.in_child(hf_traced.traced, self.name, length)
        return model

    def in_child(self, function: Any, *args: Any) -> Any:
        """Call ``function`` in the library's process."""
        try:
            return _library().run(function, self.values, self.source, *args)
        except FailedError as error:
            raise FailedError(f"{self.source}: {error}") from None


@cache
def _library() -> Child:
    return Child(hf_traced.prepare)
