"""A fitted disturbance as text of a scenario."""

from __future__ import annotations

import io


def block_text(block: object) -> str:
    """Return a ``disturbance`` block as YAML."""
    from ruamel.yaml import YAML

    yaml, stream = YAML(), io.StringIO()
    yaml.default_flow_style = None  # a mapping or list without nested ones is written on one line
    yaml.width = 79  # of a terminal
    yaml.dump({"disturbance": block}, stream)
    return stream.getvalue()
