"""Parse YAML text to nodes with places.

Supports only YAML 1.2's core schema, and stops early on texts that expand without bound.

Values are built from ruamel.yaml's events instead of by its own constructors, which recurse without
a limit, expand aliases before they can be counted, and accept more than YAML 1.2 has (dates, merge
keys, tags that build objects).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from io import StringIO
from typing import TYPE_CHECKING, Any

from dpsim.scenario.document import Document, Node, Path, Place, Problem, Scalar, error, show

if TYPE_CHECKING:
    from dpsim.base.errors import ScenarioError

# Keys, values, lists and mappings, after alias expansion; a scenario has about 100.
MAX_NODES = 100_000
MAX_DEPTH = 100
# Characters, limited because ruamel's time for a long tag grows with the square of its length.
MAX_LINE = 100_000

_CORE = "tag:yaml.org,2002:"
_TAGS = {
    "ScalarEvent": {f"{_CORE}{name}" for name in ("str", "int", "float", "bool", "null")} | {"!"},
    "SequenceStartEvent": {f"{_CORE}seq", "!"},
    "MappingStartEvent": {f"{_CORE}map", "!"},
}
# Characters outside YAML's printable ones indicate a binary file.
_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_CONSTANTS: dict[str, Scalar] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
_CONSTANTS |= dict.fromkeys(("true", "True", "TRUE"), True)
_CONSTANTS |= dict.fromkeys(("false", "False", "FALSE"), False)
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_MAX_DIGITS = 400  # beyond the largest float, and below the limit of int()
# A single word or number, as in most overrides, does not need the parser, which takes 0.3 ms.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}")
_LONGEST_CACHED = 1 << 14  # characters of a text whose nodes are cached


def from_text(text: str, source: str) -> Document:
    """Return the mapping in a YAML text; errors name ``source``. Raises ScenarioError."""
    root = parse(text, source)
    if root is not None and isinstance(root.value, dict):
        return Document(source, root)
    place = Place(source, 1)
    got = "an empty file"
    if text.strip():
        place = root.place if root else place
        got = show(root) if root else "nothing"
    rule = f"must be a mapping, such as 'name: my-cluster', but got {got}"
    raise error([Problem(place, (), rule)])


def parse(text: str, source: str, place: Place | None = None) -> Node | None:
    """Return the single document in ``text``, or None if there is none.

    Each node's place is its line and column in ``source``, or ``place`` for text outside a file.
    Raises ScenarioError for text that is not YAML, duplicate keys, several documents, unknown tags,
    aliases that expand to more than 100,000 nodes, and nesting deeper than 100.
    """
    if _PLAIN.fullmatch(text):
        return Node(resolve(text), place or Place(source, 1))
    if len(text) > _LONGEST_CACHED:
        return _Builder(text, source, place).document()
    return _parse_cached(text, source, place)


# Cached, since a study parses its scenario once for each question about it.
@lru_cache(maxsize=32)
def _parse_cached(text: str, source: str, place: Place | None) -> Node | None:
    return _Builder(text, source, place).document()


class _Builder:
    """Builds nodes from events, and counts nodes and depth."""

    def __init__(self, text: str, source: str, place: Place | None) -> None:
        self.source = source
        self.place = place
        self.events = self._events(text)
        self.path: list[str | int] = []
        self.nodes = 0
        # By anchor: the node, its number of nodes, and its height; None while it is being built.
        self.anchors: dict[str, tuple[Node, int, int] | None] = {}

    def document(self) -> Node | None:
        root = None
        started = False
        for event in self.events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent" and started:
                raise self._error(
                    event, "must be one YAML document, but a second one starts here", ()
                )
            if kind in ("StreamStartEvent", "StreamEndEvent", "DocumentEndEvent"):
                continue
            if kind == "DocumentStartEvent":
                started = True
                continue
            root, _ = self._node(event, 0)
        return root

    def _events(self, text: str) -> Iterator[Any]:
        from ruamel.yaml import YAML  # slow to import
        from ruamel.yaml.error import MarkedYAMLError

        self._check_characters(text)
        mark = None
        try:
            # Parse events, which have places and can be counted to stop an alias bomb early.
            for event in YAML(typ="safe", pure=True).parse(text):
                mark = event.end_mark
                yield event
        except MarkedYAMLError as err:
            mark = err.problem_mark or err.context_mark
            if mark is not None and text[mark.index : mark.index + 1] == "\t":
                raise self._syntax_error(
                    "must be indented with spaces, but got a tab", mark
                ) from None
            message = _one_line(err.problem or err.context)
            # ruamel shows tokens as a tuple of one: ('<block end>',).
            message = re.sub(r"\('(<[^']*>)',\)", r"\1", message)
            raise self._syntax_error(f"must be YAML, but {message[:200]}", mark) from None
        except Exception as err:
            # Malformed escapes and directives lead to chr(), int() and attributes of None.
            rule = f"must be YAML, but the text from here on cannot be read: {_one_line(err)[:200]}"
            raise self._syntax_error(rule, mark) from None

    def _check_characters(self, text: str) -> None:
        wrong = _CONTROL.search(text)
        if wrong:
            before = text[: wrong.start()]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            place = self.place or Place(self.source, line, column)
            rule = f"must be text, but got the character {wrong[0]!r}, as in a binary file"
            raise error([Problem(place, (), rule)])
        for number, line_text in enumerate(text.splitlines(), start=1):
            if len(line_text) > MAX_LINE:
                place = self.place or Place(self.source, number, 1)
                rule = (
                    f"must have lines of at most {MAX_LINE:,} characters, but got one of "
                    f"{len(line_text):,}"
                )
                raise error([Problem(place, (), rule)])

    def _syntax_error(self, rule: str, mark: Any) -> ScenarioError:
        place = self._place(mark) if mark else self.place or Place(self.source)
        return error([Problem(place, (), rule)])

    def _place(self, mark: Any) -> Place:
        return self.place or Place(self.source, mark.line + 1, mark.column + 1)

    def _error(self, event: Any, rule: str, path: Path | None = None) -> ScenarioError:
        where = tuple(self.path) if path is None else path
        return error([Problem(self._place(event.start_mark), where, rule)])

    def _count(self, event: Any, nodes: int, depth: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise self._error(
                event, f"must hold at most {MAX_NODES:,} values, aliases expanded, but got more", ()
            )
        if depth > MAX_DEPTH:
            raise self._error(event, f"must be nested at most {MAX_DEPTH} deep, but got more", ())

    def _node(self, event: Any, depth: int) -> tuple[Node, int]:
        """Return the node that starts with ``event``, and its height: 0 for a scalar."""
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self._alias(event, depth)
        before = self.nodes
        self._count(event, 1, depth)
        if event.tag and event.tag not in _TAGS[kind]:
            tag = str(event.tag).replace(_CORE, "!!")
            raise self._error(event, f"must have no such tag, but got {show(tag)}")
        if event.anchor:
            # Register the anchor as None first, to refuse an alias inside it, which would make the
            # node contain itself.
            self.anchors[event.anchor] = None
        value: Any
        if kind == "ScalarEvent":
            value, height = self._scalar(event), 0
        elif kind == "SequenceStartEvent":
            value, height = self._sequence(depth)
        else:
            value, height = self._mapping(depth)
        node = Node(value, self._place(event.start_mark))
        if event.anchor:
            self.anchors[event.anchor] = (node, self.nodes - before, height)
        return node, height

    def _alias(self, event: Any, depth: int) -> tuple[Node, int]:
        name = event.anchor
        if name not in self.anchors:
            raise self._error(event, f"must refer to an anchor above, but got {show('*' + name)}")
        anchored = self.anchors[name]
        if anchored is None:
            raise self._error(event, f"must not hold itself, but {show('*' + name)} does")
        node, nodes, height = anchored
        # An alias counts as all nodes that it stands for, since small files can expand without
        # bound.
        self._count(event, nodes, depth + height)
        return replace(node, place=self._place(event.start_mark)), height

    def _sequence(self, depth: int) -> tuple[tuple[Node, ...], int]:
        nodes: list[Node] = []
        height = 0
        for event in self.events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            self.path.append(len(nodes))
            node, below = self._node(event, depth + 1)
            self.path.pop()
            nodes.append(node)
            height = max(height, below)
        return tuple(nodes), height + 1

    def _mapping(self, depth: int) -> tuple[dict[str, Node], int]:
        nodes: dict[str, Node] = {}
        height = 0
        for event in self.events:
            if type(event).__name__ == "MappingEndEvent":
                break
            key = self._key(event, depth, nodes)
            self.path.append(key)
            value = next(self.events)
            node, below = self._node(value, depth + 1)
            self.path.pop()
            key_place = self._place(event.start_mark)
            # An empty value has no place of its own; ruamel places it before the next token.
            empty = node.value is None and value.start_mark.index == value.end_mark.index
            place = key_place if empty else node.place
            nodes[key] = replace(node, key_place=key_place, place=place)
            height = max(height, below)
        return nodes, height + 1

    def _key(self, event: Any, depth: int, nodes: dict[str, Node]) -> str:
        """Return a key's text as written: ``1`` and ``true`` are text too."""
        if type(event).__name__ != "ScalarEvent":
            raise self._error(
                event, "must have text as keys, but got an alias, a list or a mapping"
            )
        self._count(event, 1, depth + 1)
        key = str(event.value)
        if key == "<<" and event.implicit[0]:
            raise self._error(
                event,
                "must not merge mappings with '<<', which YAML 1.2 does not have: write the keys "
                "out",
            )
        self._check_text(event)
        if event.anchor:
            self.anchors[event.anchor] = (Node(key, self._place(event.start_mark)), 1, 0)
        if key in nodes:
            first = nodes[key].key_place
            assert first
            above = f", first on line {first.line}" if first.line else ""
            raise self._error(event, f"is given twice{above}", (*self.path, key))
        return key

    def _scalar(self, event: Any) -> Scalar:
        self._check_text(event)
        text = str(event.value)
        tag = (event.tag or "").rpartition(":")[2]
        # implicit[0] is true for text without quotes, which may have another type.
        if tag in ("str", "!") or not (tag or event.implicit[0]):
            return text
        if len(text) > _MAX_DIGITS and (_INTEGER.fullmatch(text) or _OCTAL_OR_HEX.fullmatch(text)):
            raise self._error(event, f"must have at most {_MAX_DIGITS} digits, but got {len(text)}")
        value = resolve(text)
        kind = {"null": None, "bool": bool, "int": int, "float": float}.get(tag, object)
        # ``!!float 1`` is 1.0, though written as an integer.
        if kind is float and type(value) is int:
            return float(value)
        if tag and (value is not None if kind is None else type(value) is not kind):
            raise self._error(event, f"must match its tag '!!{tag}', but got {show(text)}")
        return value

    def _check_text(self, event: Any) -> None:
        if not str(event.value).isascii() and re.search("[\ud800-\udfff]", event.value):
            raise self._error(event, "must be text, but got half of a surrogate pair")


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def resolve(text: str) -> Scalar:
    """Return the value of unquoted ``text`` in YAML 1.2's core schema (section 10.3.2).

    ``no`` is text and ``010`` is ten.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def as_yaml(content: object, width: int) -> str:
    """Return plain values as YAML in lines of about ``width`` characters."""
    from ruamel.yaml import YAML

    yaml, stream = YAML(), StringIO()
    yaml.default_flow_style = None  # a mapping or list without nested ones is written on one line
    yaml.width = width
    yaml.dump(content, stream)
    return stream.getvalue()
