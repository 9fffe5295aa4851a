"""Text from files and addresses, to be shown as it is: no Markdown in it is carried out."""

from __future__ import annotations

import re

# What begins an image, a link, HTML, emphasis, code, a formula, a heading or an entity anywhere; an
# underscore at the edge of a word; a list's first mark. Streamlit's own colours and emojis, and
# addresses in plain sight, cannot be escaped; they fetch nothing.
_MARKS = re.compile(
    r"([\\`*\[\]<>$~#&]"
    r"|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])"
    r"|^[-+]|(?<=^\d)[.)])"
)


def plain(text: str) -> str:
    """``text`` as Markdown that shows the same letters, a paragraph a line."""
    lines = (_MARKS.sub(r"\\\1", line.strip()) for line in text.splitlines())
    return "\n\n".join(line for line in lines if line)
