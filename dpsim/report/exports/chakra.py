"""Export a step as Chakra execution traces, one file per rank, for ASTRA-sim and others.

There is a node for each layer's pass, the optimiser's step, each computation of a codec, and each
collective. Format: mlcommons/chakra, schema/protobuf/et_def.proto; a stream of messages, each after
its length: the metadata, then the nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.base.terminal import write_whole
from dpsim.collectives import OPERATIONS, Schedule
from dpsim.engine import Job, Run, StagedCall
from dpsim.network import CollectiveModel
from dpsim.report.exports.protobuf import delimited, message, number, numbers, text

GROUPS_FILE = "comm_groups.json"
_PREFIX = "step"  # of the file names, for ASTRA-sim's --workload-configuration
_VERSION = "0.0.4"  # of the schema, as in Chakra's own generator
_MOST_NODES = 2_000_000  # of all ranks
_MICRO = 1e6

# Values of NodeType and CollectiveCommType, and field numbers of messages, in et_def.proto.
_COMP, _COMM_COLL = 4, 7
_COMM_TYPES = {
    "all-reduce": 0,
    "reduce": 1,
    "all-gather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "all-to-all": 6,
    "reduce-scatter": 7,
    "barrier": 9,
}
_ID, _NAME, _TYPE, _CTRL_DEPS, _DATA_DEPS, _DURATION, _ATTR = 1, 2, 3, 4, 5, 7, 10
_ATTR_NAME, _INT64, _BOOL, _STRING = 1, 9, 27, 29
_METADATA_VERSION, _METADATA_ATTR = 1, 2


@dataclass(slots=True)
class _Computing:
    """A computing node, between two moments of a GPU's computing, by kind of GPU (s)."""

    name: str
    starts: FloatArray
    ends: FloatArray
    data_deps: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Collective:
    """A communicating node.

    ``group_of``: the number of each worker's group. ``after``: the node before it on its stream.
    """

    name: str
    operation: str
    nbytes: int
    seconds: float
    group_of: Sequence[int]
    data_deps: list[int]
    after: int | None


class _Step:
    """The nodes of a step, the same for all workers except for their computing times."""

    def __init__(self, job: Job, step: int) -> None:
        self.job = job
        self.number = step
        self.groups: dict[tuple[int, ...], int] = {}
        self.nodes: list[_Computing | _Collective] = list(self._computing())
        # Collectives of one communicator follow one another.
        self._last: dict[str, int] = {}
        for call in job.calls(step):
            self._add(call)

    def _computing(self) -> Iterator[_Computing]:
        """Yield a node for each position of the step's program, each after the one before."""
        job, program = self.job, self.job.program
        layers = [layer.name for layer in job.model.layers]
        names = []
        for each in range(program.passes):
            of_pass = f", pass {each}" if program.passes > 1 else ""
            names += [f"forward {name}{of_pass}" for name in layers]
            names += [f"backward {name}{of_pass}" for name in reversed(layers)]
        names.append("optimizer")
        for position, name in enumerate(names):
            before = [position - 1] if position else []
            yield _Computing(name, job.positions[position], job.positions[position + 1], before)

    def _add(self, call: StagedCall) -> None:
        """Add the nodes of a call, after those that make it ready and before those that need it."""
        before = [call.ready - 1] if call.ready else []
        if call.follows:
            before = [self._last_node]
        if call.encode.any():
            before = [self._codec(f"encode {call.name}", call.encode, before)]
        for name, nbytes in call.stages:
            collective = self._collective(call, name, nbytes, before)
            self.nodes.append(collective)
            before = [self._last_node]
            self._last[call.group] = self._last_node
        if call.decode.any():
            before = [self._codec(f"decode {call.name}", call.decode, before)]
        # A result needed in a later step delays nothing in this one.
        if call.needed < self.job.program.updated and not call.lag:
            needs = self.nodes[call.needed]
            needs.data_deps.extend(before)

    @property
    def _last_node(self) -> int:
        return len(self.nodes) - 1

    def _codec(self, name: str, seconds: FloatArray, before: list[int]) -> int:
        self.nodes.append(_Computing(name, np.zeros_like(seconds), seconds, list(before)))
        return self._last_node

    def _collective(
        self, call: StagedCall, name: str, nbytes: int, before: list[int]
    ) -> _Collective:
        model = self.job.collective(name, self.number)
        operation = _operation(name, model)
        seconds = self.job.collective_seconds(name, nbytes, self.number)
        group_of = [0] * self.job.workers
        for ranks in model.members.tolist():
            group = self.groups.setdefault(tuple(ranks), len(self.groups) + 1)
            for rank in ranks:
                group_of[rank] = group
        # Chakra's size is each rank's input; dpsim's, like nccl-tests', is the output of an
        # all-gather.
        brought = -(-nbytes // model.members.shape[1]) if operation == "all-gather" else nbytes
        title = f"{call.name}: {name}"
        return _Collective(
            title, operation, brought, seconds, group_of, list(before), self._last.get(call.group)
        )

    @cached_property
    def in_order(self) -> list[int]:
        """The nodes' numbers, each after all nodes that it waits for."""
        waits_for = {
            number: [*node.data_deps, *_ctrl_deps(node)] for number, node in enumerate(self.nodes)
        }
        return list(TopologicalSorter(waits_for).static_order())

    @cached_property
    def nominal(self) -> FloatArray:
        """The seconds that each kind of GPU computes in the step."""
        return np.asarray(self.job.positions[-1])


def _ctrl_deps(node: _Computing | _Collective) -> list[int]:
    return [] if isinstance(node, _Computing) or node.after is None else [node.after]


def _operation(name: str, model: CollectiveModel) -> str:
    """Return the operation of a job's collective, by its schedule or the start of its name."""
    # A library's model has no schedule.
    schedule: Schedule | None = getattr(model, "schedule", None)
    named = name if schedule is None else schedule.operation
    # The longest first: "reduce-scatter" begins with "reduce".
    for operation in sorted(OPERATIONS, key=len, reverse=True):
        if named.startswith(operation):
            return operation
    raise DpsimError(
        "--chakra: workers must meet in collectives, which a trace can say, but the step has "
        f"{name!r}"
    )


def write_chakra(run: Run, folder: Path) -> int:
    """Write a trace for each rank of ``run`` and the groups into ``folder``; return the step.

    It is the first of the steps that communicate most. Raises DpsimError if workers do not meet in
    collectives, and for too many nodes.
    """
    job = run.job
    if job.acts_alone:
        raise DpsimError(
            "--chakra: workers must meet in collectives, which a trace can say, but each goes its "
            "own way"
        )
    sent = []
    for candidate in job.counted[: len(run.steps.step)]:
        stages = [stage for call in job.calls(candidate) for stage in call.stages]
        sent.append(sum(nbytes for _, nbytes in stages))
    chosen = int(np.argmax(sent))
    step = _Step(job, job.counted[chosen])
    nodes = job.workers * len(step.nodes)
    if nodes > _MOST_NODES:
        raise DpsimError(
            f"--chakra: the traces of all ranks must have at most {_MOST_NODES:,} nodes, but have "
            f"{nodes:,} ({job.workers:,} ranks of {len(step.nodes):,})"
        )

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DpsimError(f"--chakra: {folder} must be a folder: {error.strerror}") from None
    for worker in range(job.workers):
        write_whole(folder / f"{_PREFIX}.{worker}.et", _trace(run, step, chosen, worker))
    members = {str(group): list(ranks) for ranks, group in step.groups.items()}
    write_whole(folder / GROUPS_FILE, json.dumps(members) + "\n")
    return chosen


def _trace(run: Run, step: _Step, chosen: int, worker: int) -> bytes:
    """Return the trace of one worker."""
    kind = int(run.job.kind_of[worker])
    # Jitter and slow workers stretch all computing of a worker in a step.
    nominal = float(step.nominal[kind])
    stretch = float(run.steps.compute[chosen, worker]) / nominal if nominal else 1.0
    metadata = text(_METADATA_VERSION, _VERSION)
    for name, value in (("scenario", run.scenario.name), ("step", str(chosen))):
        metadata += message(_METADATA_ATTR, text(_ATTR_NAME, name) + text(_STRING, value))
    written = [delimited(metadata)]
    for place in step.in_order:
        node = step.nodes[place]
        if isinstance(node, _Computing):
            content = _computing(node, kind, stretch)
        else:
            content = _communicating(node, worker)
        written.append(delimited(number(_ID, place) + content))
    return b"".join(written)


def _computing(node: _Computing, kind: int, stretch: float) -> bytes:
    # Both ends are rounded instead of the duration, so that the nodes of a step add up to it.
    start, end = (round(float(each[kind]) * stretch * _MICRO) for each in (node.starts, node.ends))
    return b"".join(
        (
            text(_NAME, node.name),
            number(_TYPE, _COMP),
            numbers(_DATA_DEPS, node.data_deps),
            number(_DURATION, end - start),
            _on_gpu(),
        )
    )


def _communicating(node: _Collective, worker: int) -> bytes:
    return b"".join(
        (
            text(_NAME, node.name),
            number(_TYPE, _COMM_COLL),
            numbers(_CTRL_DEPS, _ctrl_deps(node)),
            numbers(_DATA_DEPS, node.data_deps),
            number(_DURATION, round(node.seconds * _MICRO)),
            _on_gpu(),
            _attribute("comm_type", number(_INT64, _COMM_TYPES[node.operation])),
            _attribute("comm_size", number(_INT64, node.nbytes)),
            _attribute("pg_name", text(_STRING, str(node.group_of[worker]))),
        )
    )


def _on_gpu() -> bytes:
    return _attribute("is_cpu_op", number(_BOOL, 0))


def _attribute(name: str, value: bytes) -> bytes:
    return message(_ATTR, text(_ATTR_NAME, name) + value)
