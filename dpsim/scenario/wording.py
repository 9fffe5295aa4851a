"""Plain wording of pydantic's errors.

It states the broken rule, the given value, and the nearest known name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

from dpsim.base.config import RULES, plain_rule
from dpsim.base.errors import suggestion
from dpsim.scenario.document import SHOWN_CHARACTERS, Node, Path, Place, Problem, Scalar, show
from dpsim.scenario.shape import Shape, fields_of, shape_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SHOWN_NAMES = 12


@dataclass(frozen=True, slots=True)
class _Located:
    """An error at a path of the file: its ``loc`` without the tags and labels of unions."""

    error: ErrorDetails
    path: Path
    # The unions without discriminator above the path, and the member taken in each.
    branches: tuple[tuple[Path, str], ...]
    shape: Shape  # the types allowed at the path
    parent: Shape  # the types allowed around it, before a kind is selected
    model: Shape  # the same, after a kind is selected

    @property
    def type(self) -> str:
        return self.error["type"]


def problems(errors: Iterable[ErrorDetails], model: type[BaseModel], root: Node) -> list[Problem]:
    """Return the problems of the values under ``root``, from pydantic's errors for ``model``."""
    return _one_per_union([_locate(error, model, root) for error in errors], root, 0)


def _locate(error: ErrorDetails, model: type[BaseModel], root: Node) -> _Located:
    shape = whole = parent = chosen = shape_of(model)
    node: Node | None = root
    path: Path = ()
    branches: tuple[tuple[Path, str], ...] = ()
    for part in error["loc"]:
        # With "[key]" pydantic marks an error of the key itself, which is the part before it.
        if part == "[key]":
            continue
        here = shape.select(node)
        below = node.child(part) if node else None
        if below is None and isinstance(part, str) and part not in here.fields():
            # ``part`` is the tag or label of a union's member, which is not in the file.
            union = shape.union()
            if union is None or union.kind(part) is None:
                branches += ((path, part),)
                # Labels consist of Python names: function-after[check(), Inline].
                members = [member for member in shape.models() if member.__name__ in part]
                shape = Shape((members[0],)) if len(members) == 1 else shape
            continue
        parent, chosen = whole, here
        shape = whole = here.below(part)
        if not _is_bare(part, node):
            path, node = (*path, part), below
    return _Located(error, path, branches, whole, parent, chosen)


def _is_bare(part: object, given: Node | None) -> bool:
    """Return whether the file has a value without its source, and so no key ``value``."""
    return part == "value" and given is not None and not isinstance(given.value, dict)


def _one_per_union(located: list[_Located], root: Node, level: int) -> list[Problem]:
    """Reduce the errors to one problem for each union.

    A union's problem is that of the best-matching member, or all members' problems joined.
    """
    result = [_problem(one, root) for one in located if len(one.branches) <= level]
    unions: dict[Path, dict[str, list[_Located]]] = defaultdict(lambda: defaultdict(list))
    for one in located:
        if len(one.branches) > level:
            path, label = one.branches[level]
            unions[path][label].append(one)
    for path, members in unions.items():
        # A member whose errors are all below the union had the right type, and is the intended one.
        meant = [errors for errors in members.values() if all(_is_below(path, e) for e in errors)]
        if meant:
            result += _one_per_union(min(meant, key=len), root, level + 1)
        else:
            everything = [one for errors in members.values() for one in errors]
            of_union = [one for one in everything if not _is_below(path, one)]
            fitting = [one for one in of_union if not one.type.endswith("_type")]
            result.append(_join([_problem(one, root) for one in fitting or of_union]))
    return result


def _is_below(path: Path, located: _Located) -> bool:
    return len(located.path) > len(path)


def _join(alternatives: list[Problem]) -> Problem:
    """Return one problem that lists all rules: ``must be text or a mapping, but got 5``."""
    # If a member began to read a file, the user meant that member.
    unread = [one for one in alternatives if not one.rule.startswith("must ")]
    if unread:
        return unread[0]
    first = alternatives[0]
    head, _, tail = first.rule.partition(", but got ")
    rules = [head]
    for problem in alternatives[1:]:
        rule = problem.rule.partition(", but got ")[0]
        rules.append(rule.removeprefix("must be ") if head.startswith("must be ") else rule)
    separator = ", or " if any("," in rule for rule in rules) else " or "
    text = separator.join(dict.fromkeys(rules))
    return Problem(first.place, first.path, f"{text}, but got {tail}" if tail else text)


def _problem(located: _Located, root: Node) -> Problem:
    path, node = located.path, root.nearest(located.path)
    given = root.at(path)
    if located.type == "extra_forbidden" or located.error["loc"][-1:] == ("[key]",):
        place = (node.key_place or node.place) if given else node.place
        key = str(path[-1])
        if located.type == "extra_forbidden":
            return Problem(place, path, unknown_key(key, located.parent, located.model))
        return Problem(place, path, _rule(located, Node(key, place)))
    if located.type in ("union_tag_invalid", "union_tag_not_found"):
        union = located.shape.union() or located.shape
        path = (*path, union.discriminator or "kind")
        tag = root.at(path)
        return Problem((tag or node).place, path, _no_kind(union, tag))
    if located.type == "missing":
        return Problem(node.place, path, "is missing")
    if located.type == "value_error" and given:
        return Problem(_override_place(given), path, _rule(located, given))
    # A referenced entry may be wrong although the file has only its name.
    wrong = given or Node(_as_scalar(located.error["input"]), node.place)
    return Problem(node.place, path, _rule(located, wrong))


def _rule(located: _Located, given: Node) -> str:
    """Return the rule that ``given`` breaks, with the value."""
    context = located.error.get("ctx", {})
    if located.type in ("value_error", "assertion_error"):
        return _validators_message(str(context.get("error", located.error["msg"])), given)
    if located.type in ("literal_error", "enum"):
        return _one_of(located.shape.names() or [str(context.get("expected"))], given)
    if located.type in ("too_short", "too_long"):
        return f"{plain_rule(located.error)}, but got {context['actual_length']}"
    union = located.shape.union()
    if union and located.type.endswith("_type") and RULES.get(located.type) == "must be a mapping":
        return _mapping_with_kind(union, given)
    return f"{plain_rule(located.error)}, but got {show(given)}"


def _override_place(node: Node) -> Place:
    """Return a mapping's place, or the place of the only override inside.

    Without that override the mapping's values were valid together.
    """
    places = (held.place for _, held in node.leaves())
    inside = {place for place in places if place.source != node.place.source}
    return inside.pop() if len(inside) == 1 else node.place


def _as_scalar(value: object) -> Scalar:
    return value if value is None or isinstance(value, (str, int, float)) else type(value).__name__


def _validators_message(message: str, given: Node) -> str:
    """Return a validator's message, with a very long value in it shortened."""
    # Validators quote their input, which may be of any length.
    long = repr(given.plain())
    return message.replace(long, show(given)) if len(long) > SHOWN_CHARACTERS + 2 else message


def _mapping_with_kind(union: Shape, given: Node) -> str:
    kinds = list(union.kinds())
    example = given.value if given.value in kinds else _alias_of(union, given) or kinds[0]
    return f"must be a mapping, such as {{{union.discriminator}: {example}}}, but got {show(given)}"


def _no_kind(union: Shape, tag: Node | None) -> str:
    names = list(union.kinds())
    if tag is None:
        return f"is missing{_list_names(names)}"
    return _one_of(names, tag, _alias_of(union, tag))


def _alias_of(union: Shape, given: Node) -> str | None:
    """Return the kind that users also call ``given``, if there is one."""
    name = str(given.value).lower()
    kinds = union.kinds().items()
    return next((kind for kind, model in kinds if name in getattr(model, "also_called", ())), None)


def _one_of(names: list[str], given: Node, meant: str | None = None) -> str:
    near = suggestion(meant or str(given.value)[:SHOWN_CHARACTERS], names)
    # Without a near name the suggestion lists all names, which this message already has.
    near = near if "did you mean" in near else ""
    if len(names) == 1:
        return f"must be {names[0]!r}, but got {show(given)}"
    expected = f"one of {', '.join(names)}" if len(names) <= _SHOWN_NAMES else "a known name"
    return f"must be {expected}, but got {show(given)}{near}"


def _list_names(names: list[str]) -> str:
    return f" (known: {', '.join(names)})" if 0 < len(names) <= _SHOWN_NAMES else ""


def unknown_key(key: str, parent: Shape, model: Shape | None = None) -> str:
    """Return the rule for a ``key`` unknown in ``parent``, with the likely intended key.

    ``model`` was selected from the parent's kinds.
    """
    kinds = [repr(kind) for kind, other in _kinds(parent).items() if key in fields_of(other)]
    if kinds:
        return f"is not a known key of this kind (it belongs to {', '.join(kinds)})"
    shape = model or parent
    deeper = _deeper(key, shape)
    if deeper is not None:
        return f"is not a known key (did you mean {deeper!r}?)"
    return f"is not a known key{suggestion(key[:SHOWN_CHARACTERS], shape.fields())}"


def _deeper(key: str, shape: Shape) -> str | None:
    """Return the path of ``key``, one or two levels below ``shape``; None unless unique.

    Sections of one kind come first: every file has their fields.
    """
    sections = {name: shape.below(name) for name in shape.fields()}
    having = {name: below for name, below in sections.items() if key in below.fields()}
    for name, section in having.items():
        if len(section.models()) == 1:
            return f"{name}.{key}"
    paths = [f"{name}.{key}" for name in having]
    for name, section in sections.items():
        for inner in section.fields():
            if key in section.below(inner).fields():
                paths.append(f"{name}.{inner}.{key}")
    return paths[0] if len(paths) == 1 else None


def _kinds(shape: Shape) -> dict[str, type[BaseModel]]:
    union = shape.union()
    return union.kinds() if union else {}
