"""Iteration times of GPT training, data-parallel (vTrain table).

Per rank and iteration, with m micro-batches of t = micro_batch x sequence tokens, width w, h heads,
l layers:

    layer = (1 + again / 3) (launch^8 + device^8)^(1/8)            the later of host and device
    device = products / (e P) + memory + share sqrt(launch memory)
    products = sum of 2 M N (K + K0) over the layer's matrix products, forward and both backward
    memory = (32 h s t + 120 w t) bytes / (e_m B)
    head   = 6 V w t / (e_h P) + 4 passes V t / (e_m B)
    step   = m (l layer + head + overhead) + o params + 2 params 2 (d-1)/d / bus
    params = 12 l w^2 + V w
    again  = [18 params + l t (34 w + 5 h s) + 10 V t > room]      bytes

Kernels queue ahead, so a layer costs the later of its launches and its work, never their sum. A
tile of a matrix product with inner dimension K takes K + K0 steps: filling and draining the
pipeline. Small kernels leave the device partly idle: the same square-root ramp as in NCCL's
pipelines. Gradients are fp16. Activations that the GPU has no room for are computed again: a third
of a layer's work is its forward pass (bytes: Korthikanti et al. 2022). Over several nodes the
all-reduce goes at the pace of a node's cards. Seconds and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray
from validate.published.tables import Block, Columns, constants_file, fit_blocks, soft_maximum
from validate.published.vtrain.kin import Kin

NORM = 8.0  # sharpness of the maximum of host and device


@dataclass(frozen=True)
class VtrainParameters:
    """Fitted values by name (see settings.yaml) and their standard errors in log units.

    ``kin`` is what the physics leaves of the rows that were fitted on; None without any.
    """

    values: Mapping[str, float]
    errors: Mapping[str, float]
    kin: Kin | None = None


@dataclass(frozen=True)
class Job:
    """The columns that describe a training job, as float arrays."""

    width: FloatArray
    heads: FloatArray
    layers: FloatArray
    sequence: FloatArray
    micro_batch: FloatArray
    micro_batches: FloatArray
    replicas: FloatArray

    @property
    def columns(self) -> Mapping[str, FloatArray]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def tokens(self) -> FloatArray:
        """Tokens of a micro-batch."""
        return self.micro_batch * self.sequence

    @staticmethod
    def of(rows: Columns) -> Job:
        """Reads a table; its rows must have no tensor or pipeline parallelism."""
        micro, replicas = rows.positive("micro_batch"), rows.positive("data_parallelism")
        count = np.ceil(rows.positive("global_batch") / (replicas * micro))
        return Job(
            rows.positive("hidden_size"),
            rows.positive("attention_heads"),
            rows.positive("layers"),
            rows.positive("sequence_length"),
            micro,
            count,
            replicas,
        )


def layer_flops(job: Job, ramp: FloatArray) -> FloatArray:
    """FLOP of one layer, forward and backward, with each inner dimension lengthened by `ramp`."""
    width, tokens, sequence = job.width, job.tokens, job.sequence
    head = job.width / job.heads
    total = np.zeros_like(width)
    # Query, key and value; their projection; the two products of the feed-forward part.
    for n, k in ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width)):
        # The ramp lengthens what a product is summed over: inputs, outputs or tokens.
        forward = 2 * tokens * n * (k + ramp)
        of_inputs = 2 * tokens * k * (n + ramp)
        of_weights = 2 * n * k * (tokens + ramp)
        total += forward + of_inputs + of_weights
    # Of the six products of attention, both ways, two run over a head's channels (scores, and the
    # gradient of their weights) and four over the sequence.
    by_head = 4 * sequence * sequence * (head + ramp)
    by_sequence = 8 * sequence * head * (sequence + ramp)
    scores = job.micro_batch * job.heads * (by_head + by_sequence)
    return np.asarray(total + scores)


def step_seconds(job: Job, v: Mapping[str, FloatArray], constants: Mapping[str, Any]) -> FloatArray:
    """Iteration seconds per row; formula in the module's docstring."""
    vocabulary = float(constants["vocabulary"]["value"])
    layer = _layer_seconds(job, v, constants)
    head = _head_seconds(job, v, constants)
    parameters = _parameters(job, vocabulary)
    several = job.replicas > float(constants["node"]["gpus"])
    # A ring over several nodes goes at the pace of its slowest hop.
    at_cards = np.minimum(v["bus_bandwidth"], float(constants["node"]["cards"]))
    bus = np.where(several, at_cards, v["bus_bandwidth"])
    # A ring moves 2 (r - 1) / r of the gradients, of 2 bytes each, in and out of every GPU.
    reduce = 2 * parameters * 2 * (job.replicas - 1) / job.replicas / bus
    work = job.micro_batches * (job.layers * layer + head + v["microbatch_overhead"])
    return np.asarray(work + v["optimizer"] * parameters + reduce)


def _layer_seconds(
    job: Job, v: Mapping[str, FloatArray], constants: Mapping[str, Any]
) -> FloatArray:
    """One layer of one micro-batch: the products, the passes over memory, or the launches."""
    peak, memory = float(constants["device"]["peak"]), float(constants["device"]["memory"])
    per_score = float(constants["bytes_per_score"]["value"])
    per_channel = float(constants["bytes_per_channel"]["value"])
    scores = per_score * job.heads * job.sequence * job.tokens
    channels = per_channel * job.width * job.tokens
    passes = (scores + channels) / (v["memory_efficiency"] * memory)
    products = layer_flops(job, v["ramp_depth"]) / (v["matrix_efficiency"] * peak)

    launch = v["layer_launch"]
    # Launches are partly hidden behind passes that take about as long.
    partly_idle = v["latency_share"] * np.sqrt(launch * passes)
    once = soft_maximum(launch, products + passes + partly_idle, NORM)
    return once * (1.0 + recomputed(job, constants) / 3.0)


def recomputed(job: Job, constants: Mapping[str, Any]) -> BoolArray:
    """Rows whose activations have no room beside weights, gradients and optimiser."""
    vocabulary = float(constants["vocabulary"]["value"])
    kept = constants["room"]
    state = float(kept["per_parameter"]) * _parameters(job, vocabulary)
    # Bytes that a layer keeps of a token in fp16: its channels, and its scores with all others.
    of_layer = 34 * job.width + 5 * job.heads * job.sequence
    logits = float(kept["per_logit"]) * vocabulary * job.tokens
    return state + job.layers * job.tokens * of_layer + logits > float(kept["bytes"])


def _parameters(job: Job, vocabulary: float) -> FloatArray:
    """Weights of the blocks and of the tied embedding."""
    return 12 * job.width * job.width * job.layers + vocabulary * job.width


def _head_seconds(
    job: Job, v: Mapping[str, FloatArray], constants: Mapping[str, Any]
) -> FloatArray:
    """The product with the vocabulary, forward and backward, and the passes over its outputs."""
    peak, memory = float(constants["device"]["peak"]), float(constants["device"]["memory"])
    vocabulary = float(constants["vocabulary"]["value"])
    bandwidth = v["memory_efficiency"] * memory
    # Three products of 2 V w t each: forward, and the gradients of inputs and of weights.
    product = 6 * vocabulary * job.width * job.tokens / (v["head_efficiency"] * peak)
    passes = 4 * v["head_passes"] * vocabulary * job.tokens / bandwidth
    return product + passes


def fit(rows: Columns) -> VtrainParameters:
    """Fits the ten parameters of vtrain.yaml, with their priors, to iteration_time_ms."""
    constants = constants_file("vtrain/settings.yaml")
    job, zero = Job.of(rows), np.zeros(len(rows), dtype=np.int64)
    blocks = [
        Block(name, np.array([float(entry["value"])]), np.array([float(entry["spread"])]), zero)
        for name, entry in constants["parameters"].items()
    ]
    # From so many rows on, more rows weigh no more against the priors.
    noise = constants["row_noise"]
    sigma = float(noise["value"]) * float(np.sqrt(max(len(rows) / float(noise["rows"]), 1.0)))
    result = fit_blocks(
        blocks,
        lambda v: step_seconds(job, v, constants),
        rows.positive("iteration_time_ms") * 1e-3,
        sigma,
        max_evaluations=300,
    )
    values = {name: float(value[0]) for name, value in result.values.items()}
    errors = {name: float(value[0]) for name, value in result.spreads.items()}
    return with_kin(VtrainParameters(values, errors), rows)


def with_kin(parameters: VtrainParameters, rows: Columns) -> VtrainParameters:
    """The same with the residuals of ``rows``, which they were fitted on."""
    measured = rows.positive("iteration_time_ms") * 1e-3
    residual = np.log(measured / predict(rows, replace(parameters, kin=None)))
    return replace(parameters, kin=Kin.of(Job.of(rows).columns, residual))


def predict(rows: Columns, parameters: VtrainParameters) -> FloatArray:
    """Predicts iteration seconds for each row; reads no measured column."""
    constants = constants_file("vtrain/settings.yaml")
    values = {name: np.full(len(rows), value) for name, value in parameters.values.items()}
    job = Job.of(rows)
    physics = step_seconds(job, values, constants)
    if parameters.kin is None:
        return physics
    return physics * np.exp(parameters.kin.correction(job.columns))
