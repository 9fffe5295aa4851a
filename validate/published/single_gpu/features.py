"""What one sample of a model costs, by the packaged table of models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError
from validate.published.tables import model_named

FEATURES = "single_gpu/features.yaml"


def entry_of(name: str, table: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The entry of the model that ``name`` begins like; None for an unknown one."""
    known = model_named(name, table)
    return None if known is None else table[known]


def transformer_features(entry: Mapping[str, Any], sequence: float) -> dict[str, float]:
    """Gmac, elements_m, tensors, params_m of one sequence through a transformer.

    Per token and layer: 4 w^2 + 2 w inner multiply-adds in weights and 2 c w in attention over a
    context of c tokens; outputs 9 w + 2 inner, and 2 scores per head and context token.
    """
    w, inner, layers = float(entry["width"]), float(entry["inner"]), float(entry["layers"])
    heads, vocabulary = float(entry["heads"]), float(entry["vocabulary"])
    # Transformer-XL attends to what it kept of the segment before, too.
    remembered = sequence * float(entry.get("memory", 1.0))
    context = float(entry.get("context", remembered))
    # BERT's head works on the masked tokens alone: a share of all.
    head_share = float(entry["head_share"])
    mac = layers * (4 * w * w + 2 * w * inner + 2 * context * w)
    mac += head_share * (vocabulary * w + w * w)
    elements = layers * (9 * w + 2 * inner + 2 * heads * context)
    elements += head_share * vocabulary
    return {
        "gmac": mac * sequence * 1e-9,
        "elements_m": elements * sequence * 1e-6,
        # Sixteen a layer: weights and biases of four projections, two products and two norms.
        "tensors": 16.0 * layers + 6.0,
        "params_m": float(entry["params_m"]),
        "passes": 0.4,
        "serial_steps": 0.0,
    }


def features(model: str, sequence: float, table: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    """Returns (kind, features per sample) of a model; raises ValueError for an unknown one."""
    entry = entry_of(model, table["transformer"])
    if entry is not None:
        length = float(entry["sequence"]) if np.isnan(sequence) else sequence
        return "gemm", transformer_features(entry, length)
    for group in ("convolution", "recurrent", "embedding"):
        entry = entry_of(model, table[group])
        if entry is not None:
            numbers = {k: float(v) for k, v in entry.items() if k != "kind"}
            return str(entry["kind"]), {"serial_steps": 0.0} | numbers
    raise DpsimError(
        f"no features of model {model!r}: it must begin like one of single_gpu/features.yaml"
    )
