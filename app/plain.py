"""Text from files and addresses, shown literally: its Markdown is escaped."""

from __future__ import annotations

import re

# The start of an image, a link, HTML, emphasis, code, a formula, a heading or an entity anywhere;
# an underscore at the edge of a word; a list's first mark. Streamlit's own colours and emojis, and
# plain addresses, cannot be escaped; they fetch nothing.
_MARKS = re.compile(
    r"([\\`*\[\]<>$~#&]"
    r"|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])"
    r"|^[-+]|(?<=^\d)[.)])"
)


def plain(text: str) -> str:
    """Return ``text`` as Markdown that shows the same characters, a paragraph per line."""
    lines = (_MARKS.sub(r"\\\1", line.strip()) for line in text.splitlines())
    return "\n\n".join(line for line in lines if line)
