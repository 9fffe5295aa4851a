"""A scenario built from a configuration, with the source of each value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any

from dpsim.base.errors import UnknownNameError
from dpsim.hardware import nodes
from dpsim.imports.reading import ImportFileError
from dpsim.imports.settings import COMMONPLACE, Settings
from dpsim.workload import canonical_name

Edge = dict[str, Any]  # of a custom network
Value = str | int | float | bool | list[int] | list[Edge]
_WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z][\w./+-]*")
_ELEMENT = 4  # bytes: units are counted in fp32
ASSUMED = "assumed: "
_MODEL = "llama3.2-1b"  # small, and accepts sequences of any length
# The effect of each value that a file may lack.
_EFFECTS = {
    "cluster.node": "all times are this machine's",
    "cluster.nodes": "communication is between so many",
    "cluster.network.nic.latency": "small messages take that long",
    "cluster.network.oversubscription": "switches are simulated as never in each other's way",
    "workload.model": "computing, memory and traffic are this model's",
    "workload.batch_per_gpu": "computing and memory grow with it, traffic does not",
    "workload.gradient_accumulation": "each further pass computes as long again",
    "workload.sequence_length": "computing and memory grow with it, traffic does not",
    "workload.checkpoint": "what is computed again takes time, and saves memory",
    "workload.checkpoint.every": "what is computed again takes time, and saves memory",
    "workload.precision": "matrix products, memory and traffic are this precision's",
    "workload.optimizer": "its state takes memory, and its update time",
    "strategy.aggregation.kind": "it decides what travels and what is kept",
    "strategy.aggregation.wrap": "smaller units start earlier and cost more latency",
    "strategy.aggregation.library": "collectives take as long as by this library",
    "strategy.aggregation.weight_bytes": "gathers send as many bytes a weight",
    "strategy.aggregation.gradients.dtype": "gradients send that many bytes an element",
    "strategy.overlap.kind": "it decides how much communication runs beside computing",
    "strategy.overlap.bucket_size": "smaller buckets start earlier and cost more latency",
    "strategy.aggregation.unit_size": "smaller units start earlier and cost more latency",
}


@dataclass(frozen=True, slots=True)
class TrainingSizes:
    """The command's options for sizes that configurations lack, or that the launcher gets.

    ``nodes`` and ``gpus_per_node`` are torchrun's --nnodes and --nproc-per-node. ``folder`` is that
    of the configuration, which may name a second one.
    """

    model: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    node: str | None = None
    batch: int | None = None
    sequence_length: int | None = None
    folder: Path = Path()


@dataclass
class ScenarioDraft:
    """The values of a scenario by path, each with its source, and the ignored keys.

    ``heading`` is the file's first line, instead of the one that names ``file`` and ``program``.
    """

    file: str
    program: str
    values: dict[str, Value] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    heading: str | None = None

    def set(self, path: str, value: Value, source: str) -> None:
        """Set the value at ``path``, with its source in the configuration."""
        self.values[path] = value
        self.sources[path] = source

    def assume(self, path: str, value: Value, why: str) -> None:
        """Set a value that the configuration lacks; its effect must be known."""
        assert path in _EFFECTS, path
        self.set(path, value, f"{ASSUMED}{why}")

    def is_assumed(self, path: str) -> bool:
        """Return whether the value at ``path`` is neither the file's nor an option's."""
        return self.sources.get(path, "").startswith(ASSUMED)

    def ignore(self, key: str, why: str) -> None:
        """Record that a key of the configuration is not in the scenario, with its effect."""
        self.ignored.setdefault(key, why)

    @property
    def name(self) -> str:
        """The name of the scenario: the file's, without its ending."""
        if self.heading is not None:
            return self.file
        # A file such as ``.config`` has nothing before its only dot.
        return self.file.rpartition(".")[0] or self.file

    @property
    def assumptions(self) -> list[dict[str, Any]]:
        """The assumed values: path, value, reason, and effect."""
        return [
            {
                "path": path,
                "value": self.values[path],
                "why": self.sources[path].removeprefix(ASSUMED),
                "effect": _EFFECTS[path],
            }
            for path in self.values
            if self.is_assumed(path)
        ]

    @property
    def taken(self) -> list[str]:
        """The values from the configuration or the options, a line each."""
        return [
            f"{path} {_value_text(value)} ({self.sources[path]})"
            for path, value in self.values.items()
            if not self.is_assumed(path)
        ]

    @property
    def assumed(self) -> list[str]:
        """The assumed values with their effect, a line each."""
        return [
            f"{each['path']} {_scalar(each['value'])} ({each['why']}): {each['effect']}"
            for each in self.assumptions
        ]

    @property
    def ignored_lines(self) -> list[str]:
        """The ignored keys by their effect, a line each, those without effect on a step last."""
        keys: dict[str, list[str]] = {}
        for key, why in self.ignored.items():
            keys.setdefault(why, []).append(_printable(key))
        ordered = sorted(keys, key=lambda why: COMMONPLACE.get(why, 0))
        return [f"{', '.join(keys[why])}: {why}" for why in ordered]

    def plain(self) -> dict[str, Any]:
        """Return the scenario as nested mappings."""
        root: dict[str, Any] = {"name": self.name, "cluster": {}, "workload": {}, "strategy": {}}
        for path, value in self.values.items():
            *way, last = path.split(".")
            below = root
            for key in way:
                below = below.setdefault(key, {})
            below[last] = value
        return root

    def to_yaml(self) -> str:
        """Return the scenario file, with comments on sources and ignored keys."""
        source = f"From {_printable(self.file)}, a configuration of {self.program}."
        lines = [f"# {self.heading or source}"]
        if self.ignored:
            lines.append("# Ignored:")
        for line in self.ignored_lines:
            wrapped = wrap(line, _WIDTH - len("# - "), break_long_words=False)
            lines += [f"{'#   ' if place else '# - '}{part}" for place, part in enumerate(wrapped)]
        return "\n".join([*lines, *self._lines(self.plain(), "")]) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``dpsim import deepspeed --json`` and similar commands."""
        return {
            "scenario": self.plain(),
            "taken": [
                {"path": path, "value": value, "from": self.sources[path]}
                for path, value in self.values.items()
            ],
            "assumed": self.assumptions,
            "ignored": [{"key": key, "why": why} for key, why in self.ignored.items()],
        }

    def _lines(self, values: dict[str, Any], before: str) -> Iterable[str]:
        indent = "  " * before.count(".")
        for key, value in values.items():
            if isinstance(value, dict):
                if not value:
                    continue
                yield f"{indent}{key}:"
                yield from self._lines(value, f"{before}{key}.")
                continue
            source = self.sources.get(f"{before}{key}")
            comment = "" if source is None else f"  # {_printable(source)}"
            if _are_edges(value):
                yield f"{indent}{key}:{comment}"
                yield from (f"{indent}  - {_edge_text(edge)}" for edge in value)
            else:
                yield f"{indent}{key}: {_scalar(value)}{comment}"


def place_workers(
    draft: ScenarioDraft, sizes: TrainingSizes, workers: int | None = None, source: str = ""
) -> None:
    """Set the nodes on which the configuration's ``workers`` run (None: unknown).

    Raises ImportFileError if options contradict it, or nodes are not filled evenly.
    """
    kind = sizes.node or "dgx-h100"
    if sizes.node is None:
        draft.assume("cluster.node", kind, "the file names no machine; --node NAME")
    else:
        draft.set("cluster.node", kind, "--node")
    most = nodes()[kind].gpus

    # Few workers share one node, as started by a launcher on one machine.
    each = sizes.gpus_per_node or min(workers or most, most)
    # Rounded up, so that a number that does not fill whole nodes is refused below.
    count = sizes.nodes or (1 if workers is None else -(-workers // each))
    if workers is not None and count * each != workers:
        raise ImportFileError(
            f"{source} must be {count} nodes x {each} GPUs = {count * each}, but got {workers} "
            "(--nodes, --gpus-per-node)"
        )
    if sizes.nodes is None and workers is None:
        draft.assume("cluster.nodes", count, "the file does not say; --nodes N")
    else:
        draft.set("cluster.nodes", count, source or "--nodes")
    # By default a scenario uses all GPUs of a node.
    if each != most:
        draft.set("cluster.gpus_per_node", each, source or "--gpus-per-node")


def name_model(
    draft: ScenarioDraft,
    sizes: TrainingSizes,
    named: tuple[str, str] | None = None,
    spellings: Iterable[str] = (),
) -> None:
    """Set the model: the option's, the one named in the file, or a small one.

    ``named`` is the file's own name and its keys, ``spellings`` are possible names in the
    catalogue. Raises ImportFileError if the file names an unknown model.
    """
    if sizes.model is not None:
        draft.set("workload.model", sizes.model, "--model")
    elif named is not None:
        name, keys = named
        model = _first_known(spellings)
        if model is None:
            raise ImportFileError(
                f"{keys} must name a model of the catalogue (dpsim catalogue models), but got "
                f"{name!r}: --model NAME says which one to simulate"
            )
        draft.set("workload.model", model, keys)
    else:
        draft.assume("workload.model", _MODEL, "the file names none; --model NAME")
    if sizes.sequence_length is not None:
        draft.set("workload.sequence_length", sizes.sequence_length, "--sequence-length")


def set_batch(
    draft: ScenarioDraft,
    sizes: TrainingSizes,
    batch: int | None,
    key: str,
    usual: int = 1,
    why: str = "the file does not say",
) -> None:
    """Set the batch per GPU: the option's, the file's ``batch``, or the usual one."""
    if sizes.batch is not None:
        draft.set("workload.batch_per_gpu", sizes.batch, "--batch")
    elif batch is not None:
        draft.set("workload.batch_per_gpu", batch, key)
    else:
        draft.assume("workload.batch_per_gpu", usual, f"{why}; --batch N")


def set_passes(draft: ScenarioDraft, settings: Settings) -> int | None:
    """Set the passes of a step, if the file has their number; return it."""
    passes = settings.number("gradient_accumulation_steps")
    if passes is not None:
        source = settings.path("gradient_accumulation_steps")
        draft.set("workload.gradient_accumulation", passes, source)
    return passes


def set_optimizer(
    draft: ScenarioDraft,
    name: str | None,
    known: Mapping[str, str],
    key: str,
    usual: str = "the program chooses it",
) -> None:
    """Set the optimizer that the file names, if it is ``known``; else assume AdamW."""
    if name is not None and name in known:
        draft.set("workload.optimizer", known[name], key)
        draft.values.pop("workload.optimizer_kernels", None)  # of an optimizer that this replaces
        if "fused" in name:
            draft.set("workload.optimizer_kernels", "fused", key)
    else:
        why = usual if name is None else f"{key} {name} is not simulated"
        draft.assume("workload.optimizer", "adamw", why)


def _first_known(spellings: Iterable[str]) -> str | None:
    """Return the catalogue's name of the first spelling that it knows."""
    for spelling in spellings:
        with suppress(UnknownNameError):
            return canonical_name(spelling)
    return None


def use_nccl(draft: ScenarioDraft) -> None:
    """Set NCCL for collectives, as these programs do on GPUs."""
    draft.assume("strategy.aggregation.library", "nccl", "torch's backend for GPUs")


def left_out(draft: ScenarioDraft, settings: Settings) -> None:
    """Record which keys of the file are not in the scenario, and the effect."""
    for key, effect in settings.unused():
        draft.ignore(key, effect)


def wrap_blocks(draft: ScenarioDraft, source: str) -> None:
    """Set that each block is a unit, gathered and sent as one."""
    draft.set("strategy.aggregation.wrap", "block", source)
    draft.set("strategy.overlap.kind", "wfbp", source)


def gather_units(draft: ScenarioDraft, elements: int, source: str) -> None:
    """Set the number of elements in a unit of stage 3."""
    draft.set("strategy.aggregation.unit_size", f"{_ELEMENT * elements} B", source)


def offload(draft: ScenarioDraft, part: str, device: str | None, source: str) -> None:
    """Set that ``part`` of the state is kept on ``device``, if any, and if it is sharded."""
    stage = draft.values.get("strategy.aggregation.stage", 0)
    if device is None or device == "none":
        return
    if device not in ("cpu", "nvme"):
        draft.ignore(source, f"{device} is none of cpu, nvme")
    elif stage == 3 or (stage and part == "optimizer"):
        draft.set(f"strategy.aggregation.offload.{part}", device, source)
    else:
        draft.ignore(source, "each worker keeps it whole, on its GPU")


def send_buckets(draft: ScenarioDraft, nbytes: int, source: str, kind: str = "") -> None:
    """Set the bytes of a gradient bucket; ``kind`` is the source of bucketing."""
    draft.set("strategy.overlap.kind", "buckets", kind or source)
    draft.set("strategy.overlap.bucket_size", f"{nbytes} B", source)
    # Only torch's DistributedDataParallel has a smaller first bucket.
    draft.set("strategy.overlap.first_bucket", f"{nbytes} B", "as large as the others")


def gpus_of(draft: ScenarioDraft) -> int:
    """Return the number of GPUs of the cluster."""
    of_a_node = nodes()[str(draft.values["cluster.node"])].gpus
    count, each = draft.values["cluster.nodes"], draft.values.get("cluster.gpus_per_node")
    return int(str(count)) * int(str(each or of_a_node))


def _are_edges(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(entry, dict) for entry in value)


def _value_text(value: Value) -> str:
    """Return a value on a line of its own; for edges only their number."""
    if isinstance(value, list) and _are_edges(value):
        return f"{len(value):,} edges"
    return _scalar(value)


def _edge_text(edge: Edge) -> str:
    """Return an edge on one line: ``{between: [a, b], link: ib-hdr}``."""
    ends = ", ".join(_scalar(end) for end in edge["between"])
    rest = "".join(f", {key}: {_scalar(value)}" for key, value in edge.items() if key != "between")
    return f"{{between: [{ends}]{rest}}}"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    # Sizes with a unit are plain text in every YAML, and more readable without quotes.
    if isinstance(value, int | float | list) or re.fullmatch(r"\d+ (B|MiB)", text):
        return text
    # YAML 1.2 reads yes, no, on and off as text, but parsers of 1.1 do not.
    reserved = text.lower() in ("true", "false", "yes", "no", "on", "off", "null")
    return text if _PLAIN.fullmatch(text) and not reserved else json.dumps(text)


def _printable(text: str) -> str:
    """Return the text on one line, without unprintable characters from hostile files."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return plain if len(plain) <= _WIDTH else f"{plain[:_WIDTH]}..."
