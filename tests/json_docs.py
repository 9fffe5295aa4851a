"""What docs/json.md says of the JSON that a command prints."""

import re
from pathlib import Path

TEXT = (Path(__file__).parents[1] / "docs" / "json.md").read_text(encoding="utf-8")


def section(heading):
    """The text below the heading that begins with ``heading``, up to the next heading."""
    _, begin = re.split(rf"^##+ (?:The table )?`{heading}", TEXT, maxsplit=1, flags=re.MULTILINE)
    return begin.partition("\n##")[0]


def documented_keys(heading):
    """The keys in the first column of the section's tables, in their order."""
    cells = re.findall(r"^\| (`.*?) \|", section(heading), re.MULTILINE)
    return [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]
