"""A scenario by three fields at the top of the sidebar: model, GPU, number of GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import streamlit as st

from app import controls, state
from app.answers import counted_nodes
from app.reading import scenario
from app.spec import Spec
from app.titles import model_words
from app.words import device_words
from dpsim.hardware import gpus, nodes
from dpsim.imports.first_scenario import machine_for
from dpsim.workload.models import MODELS

_PER_NODE = 8  # GPUs per machine of most clusters
_MOST_GPUS = 2**20


def draw(spec: Spec) -> None:
    """Draw the fields; none for a cluster of several kinds of nodes, or a testbed.

    Raises DpsimError if ``spec`` is invalid.
    """
    if not counted_nodes(spec):
        return
    given = scenario(spec)
    model, gpu = given.build_model().name, given.cluster.parts[0].accelerator.name
    count = given.cluster.ranks
    _choice("workload.model", "model", MODELS, model, model_words, _change_model)
    entered = partial(_change_gpus, count=count)
    _choice("cluster.gpu", "GPU", gpus(), gpu, device_words, entered)
    entered = partial(_change_gpus, gpu)
    limits = {"min_value": 1, "max_value": _MOST_GPUS, "step": 1}
    widget = st.number_input
    controls.knob("cluster.nodes", widget, "GPUs in all", "entry count", count, entered, **limits)


def _choice(
    path: str,
    label: str,
    known: Iterable[str],
    shown: str,
    words: Callable[[str], str],
    entered: Callable[[str], None],
) -> None:
    options = dict.fromkeys([*known, shown])
    more = {"options": options, "format_func": words}
    controls.knob(path, st.selectbox, label, f"entry {label}", shown, entered, **more)


def _change_model(model: str) -> None:
    state.show_spec(with_model(state.current().spec, model))


def _change_gpus(gpu: str, count: int) -> None:
    state.show_spec(with_gpus(state.current().spec, gpu, count))


def with_model(spec: Spec, model: str) -> Spec:
    """Return ``spec`` with another model, at its default sequence length."""
    # The measured step belongs to the previous model.
    bare = _without_measured_step(controls.unset(spec, "workload.sequence_length"))
    return bare.with_value("workload.model", model)


def with_gpus(spec: Spec, gpu: str, count: int) -> Spec:
    """Return ``spec`` on ``count`` GPUs of a kind, in as few catalogue machines as possible.

    The network does not change.
    """
    now = scenario(spec).cluster.parts[0]
    is_same = now.accelerator.name == gpu
    machine = now.node.name if is_same else machine_for(gpu, min(count, _PER_NODE))
    node = nodes().get(machine, now.node)
    each = next(size for size in range(min(node.gpus, count), 0, -1) if count % size == 0)
    if not is_same:
        # A stated price is of the previous GPU: now the list price counts.
        spec = controls.unset(controls.unset(spec, "cluster.gpu"), "cost.price_per_gpu_hour")
        spec = _without_measured_step(spec)
        spec = spec.with_value("cluster.node", machine)
        if node.gpu.name != gpu:
            spec = spec.with_value("cluster.gpu", gpu)
    spec = controls.unset(spec, "cluster.gpus_per_node")
    if each < node.gpus:
        spec = spec.with_value("cluster.gpus_per_node", str(each))
    return spec.with_value("cluster.nodes", str(count // each))


def _without_measured_step(spec: Spec) -> Spec:
    bare = spec.without("calibration")
    is_fitted = controls.stated(bare, "calibration") is not None
    return bare.with_value("calibration", "catalogue") if is_fitted else bare
