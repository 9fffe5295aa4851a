"""The pieces of the plan: what each measures, a row after another."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from dpsim.base.errors import DpsimError, FailedError
from validate.emulate import Case
from validate.gpu_plan.sizes import Size
from validate.microbench import Settings, machine, provenance
from validate.microbench import here as measure_here
from validate.node import as_here, carry_out, here, node_profile, on_node
from validate.ranks.launch import launch, loopback
from validate.ranks.processes import first_line, joined

Row = dict[str, Any]


class OutOfTime(FailedError):  # noqa: N818 - it says what happened
    """A piece has used up its time; what it measured is kept, and the next run goes on."""


class Clock:
    """A piece's time from now on, and the rows that an earlier run of it has measured."""

    def __init__(self, seconds: float, known: Sequence[Row] = ()) -> None:
        self._end = time.monotonic() + seconds
        self._known = known

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self._end - time.monotonic()

    def known(self, row: Row) -> Row | None:
        """The row that an earlier run wrote for what ``row`` begins with.

        Raises OutOfTime where it would have to be measured, and no time is left.
        """
        for each in self._known:
            if row.items() <= each.items():
                return each
        if self.left_s <= 0:
            raise OutOfTime("its time is used up: the next run goes on here")
        return None


@dataclass(frozen=True, slots=True)
class Plan:
    """Where it writes, on what, and how large."""

    folder: Path
    device: str
    backend: str
    size: Size

    def pieces(self) -> dict[str, Callable[[Clock], Iterator[Row]]]:
        """By name, in order: the most useful first."""
        of_models = {f"steps-{model}": partial(self._steps, model) for model in self.size.models}
        return {
            "node": self._node,
            **of_models,
            "shared": self._shared,
            **{what: partial(self._microbench, what) for what in ("codecs", "copies", "learners")},
            "trace": self._trace,
        }

    def share(self, name: str) -> float:
        """Seconds that a piece takes about."""
        return self.size.seconds[name.partition("-")[0]]

    @property
    def profile(self) -> Path:
        """The profile of this node, which the first piece writes."""
        return self.folder / "profile.json"

    def _node(self, clock: Clock) -> Iterator[Row]:
        found = node_profile(
            device=self.device,
            backend=self.backend,
            ranks=1,
            # The fit follows.
            minutes=0.9 * clock.left_s / 60,
            models=self.size.measured,
        )
        assert found is not None, "no launcher has started this piece"
        self.profile.write_text(found.to_json())
        place = {key: value for key, value in machine().items() if key != "host"}
        yield {"what": "machine", **place, **provenance()}
        for what, errors in found.residuals_by.items():
            yield {"what": "node", "of": what, "errors": errors.model_dump()}

    def _steps(self, model: str, clock: Clock) -> Iterator[Row]:
        """One rank alone: every batch, precision, checkpoint and execution of ``model``."""
        with joined(self.backend, self.device) as world:
            for case in self._variants(model):
                row: Row = {"what": "step", "model": model, "set": list(case.set)}
                # What an earlier run measured is written again: this run's file replaces that one.
                if known := clock.known(row):
                    yield known
                    continue
                begin = time.perf_counter()
                try:
                    found = carry_out(case.job(), world, "real")
                # torch raises RuntimeError where memory runs out; what fits is measured still.
                except (DpsimError, RuntimeError) as error:
                    yield {**row, "failed": first_line(error)}
                    continue
                yield {
                    **row,
                    "step_s": found["step_s"],
                    "alone_s": found["alone_s"],
                    "peak_bytes": found["peak_bytes"],
                    "device": found["device_name"],
                    "took_s": time.perf_counter() - begin,
                }

    def _variants(self, model: str) -> Iterator[Case]:
        size = self.size
        for (precision, execution, checkpoint), batch in product(size.variants, size.models[model]):
            workload: Row = {
                "model": model,
                "batch_per_gpu": batch,
                "precision": precision,
                "execution": execution,
                "checkpoint": checkpoint,
            }
            if size.sequence is not None and not model.startswith("resnet"):
                workload["sequence_length"] = size.sequence
            yield self.case(workload, {"overlap": {"kind": "buckets"}}, 1)

    def case(self, workload: Row, strategy: Row, workers: int) -> Case:
        """A scenario on the hardware that is here, written beside the records."""
        file = self.folder / "scenario.yaml"
        # JSON is YAML. The file's own workload is a stand-in: each case sets another one.
        text = {
            "name": "plan",
            "cluster": {"nodes": workers, "node": "testbed-host"},
            "workload": {"model": "resnet18", "batch_per_gpu": 1},
            # What does not fit is found out on the device, and its row says so.
            "run": {"steps": self.size.steps, "warmup": 3, "allow_out_of_memory": True},
        }
        if not file.exists():
            file.write_text(json.dumps(text))
        sets = (
            f"cluster.nodes={workers}",
            f"workload={json.dumps(workload)}",
            f"strategy={json.dumps(strategy)}",
        )
        # Workers that share the device count as if each had one of its own.
        node = replace(here(self.device), count=workers)
        return as_here(Case(str(file), sets), node, None)

    def _shared(self, clock: Clock) -> Iterator[Row]:
        """Two and four gloo ranks that share the device, each strategy; and nccl with one rank."""
        model = next(iter(self.size.models))
        workload = {"model": model, "batch_per_gpu": self.size.models[model][0]}
        strategies: dict[str, Row] = {
            "ddp": {"aggregation": {"kind": "allreduce"}, "overlap": {"kind": "buckets"}},
            "fsdp": {"aggregation": {"kind": "sharded"}},
            "local-sgd": {"sync": {"kind": "local-sgd", "every": 2}},
            "servers": {
                "aggregation": {"kind": "parameter-server", "servers": 1},
                "overlap": {"kind": "sequential"},
            },
        }
        for workers, (name, strategy) in product((2, 4), strategies.items()):
            row: Row = {"what": "shared", "strategy": name, "workers": workers}
            if known := clock.known(row):
                yield known
                continue
            try:
                found = on_node(
                    self.case(workload, strategy, workers),
                    device=self.device,
                    backend="gloo",
                    share=True,
                )
            except DpsimError as error:
                yield {**row, "failed": first_line(error)}
                continue
            assert found is not None, "no launcher has started this piece"
            yield {**row, "measured": found.measured.parts_s, "memory": dict(found.memory)}

    def _microbench(self, what: str, clock: Clock) -> Iterator[Row]:
        settings = Settings(
            what=(what,),
            device=self.device,
            backend=self.backend,
            begin=2**12,
            end=self.size.largest,
            factor=8,
            iterations=5,
        )
        # Not resumed in parts: each of these benchmarks takes less than a minute.
        run = measure_here(settings.checked(), lambda name, done, total: None)
        assert run is not None, "no launcher has started this piece"
        yield from run.rows
        yield from ({"what": name, "not_run": why} for name, why in run.not_run.items())

    def _trace(self, clock: Clock) -> Iterator[Row]:
        """A Kineto trace of two ranks, and what ``import kineto`` and ``advise`` make of it."""
        model = next(iter(self.size.models))
        workload = {"model": model, "batch_per_gpu": self.size.models[model][0]}
        # By the commands that a user would type: what they print is what is kept.
        trace = self.folder / "trace.json"
        case = self.case(workload, {}, 2)
        told = json.dumps([case.file, case.set, self.device, str(trace)])
        command = [sys.executable, "-m", "validate.gpu_plan.traced", told]
        try:
            launch(command, loopback(2), timeout_s=max(clock.left_s, 1.0))
        except DpsimError as error:
            yield {"what": "trace", "failed": first_line(error)}
            return
        model_file = str(self.folder / "model.json")
        commands = (
            ["import", "kineto", str(trace), "-o", model_file],
            ["advise", str(trace), "--json"],
        )
        for command in commands:
            ran = subprocess.run(
                [sys.executable, "-m", "dpsim.cli", *command],
                check=False,
                capture_output=True,
                text=True,
            )
            yield {
                "what": "trace",
                "command": command[0],
                "returncode": ran.returncode,
                "said": (ran.stdout or ran.stderr).replace(f"{self.folder}/", "")[-2000:],
            }
