"""The documentation page of compatible strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsim.scenario import shape_of
from dpsim.strategy import RULES, Rule, StrategyConfig

_HEAD = """\
# Which strategies go together

Made from `dpsim/strategy/combinations.py` by `make golden`; do not edit. Every combination that \
no rule speaks of is simulated; the
others are refused with the rule's reason. A number is a rule below: after **no** it refuses the \
combination, after *but* it
refuses some overlap policy, codec, average of the loss or way of the aggregation with it.
"""


def kinds_of(part: str) -> list[str]:
    """Return the kinds of one part of a strategy: aggregation, sync, overlap or compression."""
    return [*shape_of(StrategyConfig).below(part).kinds()]


def combinations_page() -> str:
    """Return the page in Markdown: a table of aggregation by synchronisation, and the rules."""
    syncs = kinds_of("sync")
    lines = [_HEAD, _row("aggregation", *syncs), _row(*["---"] * (len(syncs) + 1))]
    lines += [
        _row(aggregation, *(_cell(aggregation, sync) for sync in syncs))
        for aggregation in kinds_of("aggregation")
    ]
    rules = [f"{number}. {_speaks_of(rule)}: {rule.why}." for number, rule in enumerate(RULES, 1)]
    return "\n".join([*lines, "", "## Rules", "", *rules]) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(aggregation: str, sync: str) -> str:
    """Return whether the two are compatible, and the rules that restrict them."""
    refusing: list[str] = []
    limiting: list[str] = []
    for number, rule in enumerate(RULES, 1):
        if aggregation in _kinds(rule, "aggregation") and sync in _kinds(rule, "sync"):
            # A rule with more conditions than these two excludes only some of their combinations.
            of_all = _is_of_all(rule, {"aggregation": aggregation, "sync": sync})
            numbers = refusing if of_all else limiting
            numbers.append(str(number))
    if refusing:
        return f"**no** {', '.join(refusing)}"
    if limiting:
        return f"yes, *but* {', '.join(limiting)}"
    return "yes"


def _is_of_all(rule: Rule, kinds: Mapping[str, str]) -> bool:
    """Return whether it excludes these kinds of aggregation and synchronisation in every form."""
    if rule.overlap or rule.compression or rule.loss or rule.field or rule.sync_field:
        return False
    conditions = [
        (rule.conditions[part], part, kind)
        for part, kind in kinds.items()
        if part in rule.conditions
    ]
    return all(
        question(form) for question, part, kind in conditions for form in forms_of(part, kind)
    )


def _kinds(rule: Rule, part: str) -> list[str]:
    """Return the kinds of a part of a strategy that the rule matches, in one of their forms.

    Returns all kinds where the rule has no condition on that part.
    """
    question = rule.conditions.get(part)
    kinds = kinds_of(part)
    if question is None:
        return kinds
    return [kind for kind in kinds if any(question(form) for form in forms_of(part, kind))]


# A rule may test a field of a kind. Its condition is then applied to a form with that field.
_FORMS: Mapping[tuple[str, str], Sequence[dict[str, Any]]] = {
    ("aggregation", "host"): ({"way": "single-process"},),
    ("aggregation", "sharded"): ({"shard_group": "node"},),
    ("sync", "local-sgd"): ({"group": 1}, {"group": 1, "every": 1}),
}


def forms_of(part: str, kind: str) -> list[Any]:
    """Return the kind with its defaults, and other forms where rules distinguish its fields."""
    named = {"kind": kind}
    forms = [named, *({**named, **fields} for fields in _FORMS.get((part, kind), ()))]
    return [getattr(StrategyConfig.model_validate({part: fields}), part) for fields in forms]


def _speaks_of(rule: Rule) -> str:
    parts = []
    for part in rule.conditions:
        kinds = _kinds(rule, part)
        text = f"{part} {', '.join(f'`{kind}`' for kind in kinds)}"
        if rule.field and part == "aggregation":
            # The only matching form shows the value of the field that the rule means.
            (form,) = (form for form in forms_of(part, kinds[0]) if rule.conditions[part](form))
            text += f" of {rule.field} `{getattr(form, rule.field)}`"
        if rule.sync_field and part == "sync":
            text += f" with `{rule.sync_field}`"
        parts.append(text)
    if rule.loss:
        parts.append("`average_loss`")
    return " with ".join(parts)
