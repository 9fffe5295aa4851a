"""Widgets for values of the scenario, and for options of pages.

The view (`app.state`) is the truth, since the address, undo and presets change it too. So each
widget is set from it before it is drawn, and its input is written back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st

from app import forms, state
from app.forms import Field, Schema, Union
from app.reading import document
from app.spec import Spec
from app.words import choice_words, field_words, kind_words
from dpsim.hardware import Catalogue

_NONE = ""
_INLINE_LABEL = "described in the file"
_LOG_SCALE_PATH = "cluster.nodes"
_MOST_DOUBLINGS = 11  # 1 to 1,024; more can be set in the address and in files


def stated(spec: Spec, path: str) -> Any:
    """Return the plain value at ``path`` of a scenario, None where it is not given."""
    # Split list indices off: ``disturbance.slow[0].factor``.
    keys = path.replace("[", ".").replace("]", "").split(".")
    node = document(spec).root.at(tuple(int(word) if word.isdigit() else word for word in keys))
    return None if node is None else node.plain()


def unset(spec: Spec, path: str) -> Spec:
    """Return ``spec`` without a value at ``path``."""
    bare = spec.without(path)
    # Where the file itself has a value, removing the change is not enough.
    return bare if stated(bare, path) is None else bare.with_value(path, "null")


def fields(
    path: str,
    schema: Schema | None = None,
    *,
    without: Sequence[str] = (),
    only: Sequence[str] | None = None,
) -> None:
    """Draw widgets for the values of a mapping, by default that at ``path`` in the schema."""
    for each in forms.fields(schema or forms.part(path), path):
        if each.name not in without and (only is None or each.name in only):
            _field(each)


def _field(given: Field) -> None:
    """Draw a widget for one value."""
    value = stated(state.current().spec, given.path)
    draw_it = _log_slider if given.path == _LOG_SCALE_PATH else _WIDGETS[given.type]
    draw_it(given, given.default if value is None else value)


def _draw_field(given: Field, widget: Callable[..., object], shown: object, **more: Any) -> None:
    label, key = field_words(given.name), f"set {given.path}"
    knob(given.path, widget, label, key, shown, _change_value, given, help=given.help, **more)


def knob(
    path: str,
    widget: Callable[..., object],
    label: str,
    key: str,
    shown: object,
    on_entry: Callable[..., None],
    *args: object,
    **more: Any,
) -> None:
    """Draw a widget as `draw` does, beside a button that compares values at its ``path``."""
    key, words = _of_set_up(key), f"compare values of {label}"
    with st.container(horizontal=True, wrap=False, vertical_alignment="bottom", gap=None):
        draw(widget, label, key, shown, on_entry, *args, **more)
        st.button(
            words,
            key=f"compare {key}",
            on_click=state.compare_values,
            args=(path,),
            help=words,
            icon=":material/compare_arrows:",
            type="tertiary",
        )


def _of_set_up(key: str) -> str:
    """Return the key of a widget that shows the scenario, a different one for each set-up.

    A browser sends every widget with each change. If keys stayed the same, its old values would
    look like input to the new set-up.
    """
    number = state.set_ups()
    return f"{key} ({number})" if number else key


def _log_slider(given: Field, value: Any) -> None:
    """Draw a number on a logarithmic scale: powers of two, and the current value."""
    if not isinstance(value, int) or not _is_within(value, given.least, given.most):
        # It is not on the scale. A field shows it, so that it can be corrected.
        _WIDGETS[given.type](given, value)
        return
    counts = sorted({*(2**power for power in range(_MOST_DOUBLINGS)), value})
    options = [str(count) for count in counts]
    _draw_field(given, st.select_slider, str(value), options=options)


def union(path: str, without: Sequence[str] = ()) -> None:
    """Draw a choice of the kinds of a part, and widgets for the fields of the chosen one."""
    kind(path)
    if schema := schema_of(path):
        fields(path, schema, without=without)


def kind(path: str) -> None:
    """Draw a choice of the kinds of a part."""
    given, value = forms.union(path), kind_of(path)
    options = [*([_NONE] if given.default is None else []), *given.kinds]
    knob(
        f"{path}.{given.key}",
        st.selectbox,
        field_words(given.name if given.key == "kind" else given.key),
        f"kind {given.path}",
        value if value in options else options[0],
        _change_kind,
        given,
        options=options,
        format_func=lambda kind: kind_words(kind) if kind else "none",
        help=f"{given.help} {_about_kinds(given)}",
    )


def schema_of(path: str) -> Schema | None:
    """Return the schema of the chosen kind of a part; None where there is none."""
    return forms.union(path).kinds.get(kind_of(path))


def kind_of(path: str) -> str:
    """Return the chosen kind of a part, empty where none is chosen."""
    given = forms.union(path)
    return str(stated(state.current().spec, f"{given.path}.{given.key}") or given.default or _NONE)


def entry(path: str, label: str, first: str, help_: str) -> None:
    """Draw a list of at most one disturbance: a switch, and the fields of the entry if it is on.

    ``first`` (YAML): the initial entry.
    """
    given = stated(state.current().spec, path) or []

    def switched(is_on: bool) -> None:
        state.change(path, first if is_on else "[]")

    draw(st.toggle, label, _of_set_up(f"entry {path}"), bool(given), switched, help=help_)
    if len(given) > 1:
        st.caption(f"{len(given)} entries; the first is shown")
    if given:
        fields(f"{path}[0]", forms.part(path))


def pick(
    label: str,
    options: Sequence[str],
    name: str,
    default: str,
    widget: Callable[..., object] = st.selectbox,
    words: Callable[[str], str] = choice_words,
    **more: Any,
) -> str:
    """Draw an option of the page, one of ``options`` with names by ``words``; return its value."""
    chosen = state.choice(name, default)
    # An address may hold an option of another scenario.
    shown = chosen if chosen in options else default
    more = {"options": options, "format_func": words, **more}
    return str(_page_option(widget, label, name, shown, **more) or default)


# `pick` as buttons side by side, and as a slider.
switch = partial(
    pick, widget=st.segmented_control, label_visibility="collapsed", required=True, words=str
)
slide = partial(pick, widget=st.select_slider, words=str)


def pick_several(
    label: str,
    options: Sequence[str],
    name: str,
    default: Sequence[str],
    help_: str | None = None,
    words: Callable[[str], str] = choice_words,
    most: int | None = None,
) -> list[str]:
    """Draw an option of the page, several of ``options``, at most ``most``; return them."""
    wanted = state.choice(name, ",".join(default)).split(",")
    shown = [option for option in options if option in wanted][:most]
    more = {"format_func": words, "help": help_, "max_selections": most, "wrap": True}
    return list(_page_option(st.multiselect, label, name, shown, options=options, **more))


def write(label: str, name: str, default: str, help_: str | None = None) -> str:
    """Draw an option of the page as a line of text; return it."""
    return str(_page_option(st.text_input, label, name, state.choice(name, default), help=help_))


def _page_option(
    widget: Callable[..., object], label: str, name: str, shown: object, **more: Any
) -> Any:
    """Draw an option of the page by a widget that shows ``shown``; return its value."""
    return draw(widget, label, f"choice {name}", shown, state.choose, name, **more)


def draw(
    widget: Callable[..., object],
    label: str,
    key: str,
    shown: object,
    on_entry: Callable[..., None],
    *args: object,
    **more: Any,
) -> Any:
    """Draw a widget that shows ``shown``; return its value.

    ``on_entry`` is called with ``args`` and the value that the user enters.
    """
    st.session_state[key] = shown
    widget(label, key=key, on_change=_pass_on, args=(key, on_entry, *args), **more)
    return st.session_state[key]


def _pass_on(key: str, on_entry: Callable[..., None], *args: object) -> None:
    on_entry(*args, st.session_state[key])


def _choice(given: Field, value: Any) -> None:
    options = [*([_NONE] if given.optional else []), *given.choices]
    if isinstance(value, dict):
        shown = _INLINE_LABEL
    elif value is None:
        shown = _NONE
    else:
        shown = str(value)
    if isinstance(given.catalogue, Catalogue) and shown in given.catalogue:
        shown = given.catalogue.canonical(shown)
    # A description in the file, or a name missing in the catalogue: shown, since the scenario has
    # it.
    if shown not in options:
        options = [*options, shown]
    named = {"format_func": lambda name: name or "default"}
    _draw_field(given, st.selectbox, shown, options=options, **named)


def _toggle(given: Field, value: Any) -> None:
    _draw_field(given, st.toggle, bool(value), width="stretch", wrap=True)


def _number(given: Field, value: Any) -> None:
    whole = given.type == "integer"
    kind: Callable[[Any], Any] = int if whole else float
    least: Any = None if given.least is None else kind(given.least)
    most: Any = None if given.most is None else kind(given.most)

    if value is not None:
        # Streamlit raises for a number outside the limits. As text it can be seen and corrected.
        if not _is_within(value, least, most) or value != kind(value):
            _text(given, value)
            return
        value = kind(value)

    _draw_field(
        given,
        st.number_input,
        value,
        min_value=least,
        max_value=most,
        value=None if given.optional else "min",
        step=1 if whole else None,
        format=None if whole else "%g",
        placeholder="default" if value is None else forms.shown(value),
    )


def _is_within(value: Any, least: Any, most: Any) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return (least is None or value >= least) and (most is None or value <= most)


def _text(given: Field, value: Any) -> None:
    _draw_field(given, st.text_input, forms.shown(value), placeholder="default")


_WIDGETS: dict[str, Callable[[Field, Any], None]] = {
    "choice": _choice,
    "boolean": _toggle,
    "integer": _number,
    "number": _number,
    "text": _text,
}


def _change_value(given: Field, value: Any) -> None:
    # The file's description was chosen again. Keep it: only a name could replace it.
    if value == _INLINE_LABEL:
        return
    if value is None or value == _NONE:
        state.show_spec(unset(state.editable(), given.path))
        return
    # ``shown`` rounds for display; an entered number keeps all its digits.
    state.change(given.path, repr(value) if isinstance(value, float) else forms.shown(value))


def _change_kind(given: Union, kind: str) -> None:
    spec = state.editable()
    if kind:
        state.show_spec(spec.without(given.path).with_value(f"{given.path}.{given.key}", kind))
    else:
        state.show_spec(spec.with_value(given.path, "null"))


def _about_kinds(given: Union) -> str:
    """Return the description of each kind, a line each."""
    lines = []
    for kind, schema in given.kinds.items():
        about = schema["properties"][given.key].get("description", "")
        lines.append(f"- **{kind}**: {about}")
    return "\n\n" + "\n".join(lines)
