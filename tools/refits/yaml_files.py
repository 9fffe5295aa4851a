"""Fitted constants as YAML: rounded, and the same text for the same values."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

_WIDTH = 130  # columns of the text alone, without keys and indentation


def rounded(value: float, digits: int) -> float:
    """Return ``value`` rounded to that many significant digits."""
    return float(f"{value:.{digits}g}")


def yaml_text(header: str, content: Mapping[str, Any]) -> str:
    """Return a file of constants below its ``header`` of comments."""
    yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
    yaml.width = _WIDTH
    # Write shared entries in full, not as YAML references to the first.
    yaml.representer.ignore_aliases = lambda data: True
    yaml.dump(content, stream)
    return header + stream.getvalue()
