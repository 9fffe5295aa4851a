"""Parse XML to a plain tree of elements with their lines.

It refuses a DOCTYPE, whose entities could expand, and deep nesting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from dpsim.imports.reading import ImportFileError

# `below` recurses; NCCL's files are a few bridges deep.
_DEEPEST_LEVEL = 64


@dataclass(slots=True, eq=False)
class Element:
    """An element: its name, attributes, children, and the line on which it begins."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[Element]:
        """Return the children named ``tag``."""
        return (child for child in self.children if child.tag == tag)

    def below(self, tag: str) -> Iterator[Element]:
        """Return the elements named ``tag`` at any depth below."""
        for child in self.children:
            if child.tag == tag:
                yield child
            yield from child.below(tag)

    def text(self, attribute: str) -> str:
        """Return a required attribute. Raises ImportFileError if it is missing."""
        if attribute not in self.attributes:
            raise ImportFileError(f"<{self.tag}> must have the attribute {attribute!r}", self.line)
        return self.attributes[attribute]

    def number(self, attribute: str, least: int = 0, most: int = 10**9) -> int:
        """Return an attribute that must be an integer in the range. Raises ImportFileError."""
        text = self.text(attribute)
        try:
            value = int(float(text))
        except (ValueError, OverflowError):
            value = least - 1
        if not least <= value <= most:
            raise ImportFileError(
                f"<{self.tag}> {attribute} must be a number from {least} to {most}, but got "
                f"{text!r}",
                self.line,
            )
        return value


def parse_xml(content: bytes) -> Element:
    """Return the root element of ``content``.

    Raises ImportFileError, with the line, for invalid XML or a DOCTYPE.
    """
    # expat itself, since the standard library's trees do not keep lines.
    parser = expat.ParserCreate()
    # A parent of the root, so that the root is a child like any other.
    top = Element("", {}, 0)
    open_elements = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_elements) > _DEEPEST_LEVEL:
            raise ImportFileError(
                f"elements must be nested at most {_DEEPEST_LEVEL} deep", parser.CurrentLineNumber
            )
        element = Element(tag, attributes, parser.CurrentLineNumber)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(tag: str) -> None:
        open_elements.pop()

    def refuse(*declaration: object) -> None:
        raise ImportFileError(
            "must not have a DOCTYPE: its entities could fill the memory", parser.CurrentLineNumber
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ImportFileError(
            f"must be XML, but: {expat.errors.messages[error.code]}", error.lineno
        ) from None
    except (LookupError, ValueError) as error:
        # Raised by a handler above, and also a ValueError.
        if isinstance(error, ImportFileError):
            raise
        raise ImportFileError(f"must be XML, but: {error}") from None
    return top.children[0]
