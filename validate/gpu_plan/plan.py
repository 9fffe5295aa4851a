"""The plan's items, the most useful first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from dpsim.engine import memory_use
from validate.emulate import Case
from validate.gpu_plan.sizes import Size, Words
from validate.microbench.settings import Settings
from validate.node import Here, Item, as_here, items_of, scenario_here

_MEMORY_SHARE = 0.9  # that an item may hold as predicted; one that still fails gets a row
PARTS = ("one", "node", "nodes")


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of measurements on ``ranks`` devices, ``node.count`` of them on this machine."""

    folder: Path
    node: Here
    ranks: int
    size: Size

    @property
    def backend(self) -> str:
        """The backend of torch.distributed."""
        return "nccl" if self.node.kind == "cuda" else "gloo"

    @property
    def profile(self) -> Path:
        """The file of this hardware's profile."""
        return self.folder / "profile.json"

    def items(self, parts: tuple[str, ...] = PARTS) -> list[Item]:
        """Return the items of some parts: of one device, of one node's, of several nodes'.

        Items of more devices come first: these are harder to get.
        """
        on_node = min(self.node.count, self.ranks)
        items: list[Item] = []
        if "nodes" in parts and self.ranks > on_node:
            items += self.profile_items()
            items += self._strategies(self.ranks, self.size.across_nodes)
        if "node" in parts and on_node > 1:
            items += self.profile_items() if self.ranks == on_node else []
            items += self._strategies(on_node, self.size.strategies)
        if "one" in parts:
            items += self.profile_items() if self.ranks == 1 else []
            items += self._single_rank()
        return items

    def profile_items(self) -> list[Item]:
        """Return the items of the profile."""
        here = scenario_here(self.node, self.ranks)
        return items_of(self.node, here, self.ranks, self.backend, self.size.measured)

    def case(self, item: Item) -> Case:
        """Return the scenario of an item, written beside the records."""
        file = self.folder / "scenario.yaml"
        file.write_text(json.dumps(item.scenario))
        return Case(str(file), item.set)

    def _single_rank(self) -> Iterator[Item]:
        """Yield all variants of all models on one rank, then items of ranks sharing a device."""
        for words, model in product(self.size.variants, self.size.models):
            for batch in self._batches(model, words):
                kind = "step" if words.get("execution", "eager") == "eager" else "compile"
                text = ", ".join(str(word) for word in words.values())
                workload = self._workload(model, batch, words)
                yield self._scenario(
                    f"{model}, batch {batch}, {text}", self.size.seconds[kind], workload, {}, 1
                )
        yield from self._shared()
        for benchmark in ("learners", "codecs"):
            settings = Settings(
                what=(benchmark,),
                device=self.node.kind,
                backend=self.backend,
                begin=2**12,
                end=2**18 if self.node.kind == "cpu" else 2**27,
                factor=32,
                iterations=5,
            )
            yield Item(
                name=benchmark,
                ranks=1,
                backend=self.backend,
                seconds=self.size.seconds["other"],
                settings=settings.checked(),
            )

    def _shared(self) -> Iterator[Item]:
        """Yield items of ranks that share a device by gloo, and the trace of two ranks.

        On a node of several GPUs ranks would not share one, so it has the trace alone.
        """
        several = self.node.kind == "cuda" and self.node.count > 1
        model = self.size.several_ranks[0]
        workload = self._workload(model, self._batches(model, self.size.variants[0])[0], {})
        shared = () if several else (2, 4)
        for ranks, (name, strategy) in product(shared, self.size.strategies.items()):
            item = self._scenario(
                f"{name} by {ranks} ranks on one device",
                self.size.seconds["several_ranks"],
                workload,
                strategy,
                ranks,
            )
            yield item.model_copy(update={"backend": "gloo"})
        traced = self._scenario("trace", self.size.seconds["trace"], workload, {}, 2)
        # On one GPU by gloo, since NCCL needs a GPU per rank: its sending time is in no table.
        backend = self.backend if several else "gloo"
        file = str((self.folder / "trace.json").resolve())
        yield traced.model_copy(update={"backend": backend, "traced": file})

    def _strategies(self, ranks: int, strategies: Mapping[str, Words]) -> Iterator[Item]:
        """Yield every strategy with some models, at the largest batch."""
        software = self.size.variants[0]
        for (name, strategy), model in product(strategies.items(), self.size.several_ranks):
            batch = self._batches(model, software)[-1]
            yield self._scenario(
                f"{model}, batch {batch}, {name} by {ranks} ranks",
                self.size.seconds["several_ranks"],
                self._workload(model, batch, software),
                strategy,
                ranks,
            )

    def _workload(self, model: str, batch: int, words: Words) -> dict[str, Any]:
        workload: dict[str, Any] = {"model": model, "batch_per_gpu": batch, **words}
        if self.size.sequence is not None and not model.startswith("resnet"):
            workload["sequence_length"] = self.size.sequence
        return workload

    def _batches(self, model: str, words: Words) -> list[int]:
        """Return batch sizes by factors of four; the largest should fit the memory."""
        largest = self.size.most_batch
        while largest > 1 and not self._fits(self._workload(model, largest, words)):
            largest //= 2
        return sorted({max(largest >> (2 * power), 1) for power in range(self.size.batches)})

    def _fits(self, workload: Mapping[str, Any]) -> bool:
        item = self._scenario("", 0.0, workload, {}, 1)
        held = memory_use(self.case(item).scenario()).held.total
        return held <= _MEMORY_SHARE * self.node.memory

    def _scenario(
        self, name: str, seconds: float, workload: Words, strategy: Words, ranks: int
    ) -> Item:
        """Return a scenario on the hardware of this node."""
        text = {
            "name": "plan",
            "cluster": {"nodes": ranks, "node": "testbed-host"},
            # A placeholder: ``set`` has the item's own.
            "workload": {"model": "resnet18", "batch_per_gpu": 1},
            # Items that do not fit fail on the device, and their rows say so.
            "run": {"steps": self.size.steps, "warmup": 3, "allow_out_of_memory": True},
        }
        item = Item(
            name=name,
            ranks=ranks,
            backend=self.backend,
            seconds=seconds,
            scenario=text,
            set=(f"workload={json.dumps(workload)}", f"strategy={json.dumps(strategy)}"),
        )
        # Ranks that share a device count as if each had its own.
        node = self.node if ranks > self.node.count else replace(self.node, count=ranks)
        return item.model_copy(update={"set": as_here(self.case(item), node, ranks).set})
