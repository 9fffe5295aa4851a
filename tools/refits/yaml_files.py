"""Fitted constants as YAML: so many digits, and the same text for the same values."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

_WIDTH = 130  # columns, of the text alone: keys and indents come on top


def rounded(value: float, digits: int) -> float:
    """``value`` with so many digits."""
    return float(f"{value:.{digits}g}")


def yaml_text(header: str, content: Mapping[str, Any]) -> str:
    """A file of constants below its ``header``, which is comments."""
    yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
    yaml.width = _WIDTH
    # Parts share entries: the file says each of them in full, not as a reference to the first.
    yaml.representer.ignore_aliases = lambda data: True
    yaml.dump(content, stream)
    return header + stream.getvalue()
