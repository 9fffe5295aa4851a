"""The measurements of a node for its profile, the most useful first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

from dpsim.engine import memory_use
from dpsim.scenario import Scenario
from dpsim.workload import MODELS, WorkloadConfig
from validate.microbench.models import subject
from validate.microbench.settings import Settings
from validate.node.hardware import Here
from validate.node.items import PATIENCE_S, Item
from validate.node.strategies import served_item, wrapped_item
from validate.twins import Subject

MODELS_OF = {
    "cpu": ("small-cnn", "small-transformer"),
    "cuda": ("resnet50", "bert-large", "gpt2", "llama3.2-1b"),
}
# The largest bytes of collectives and copies, and the precisions of models, the usual first.
_LARGEST_BYTES = {"cpu": 2**24, "cuda": 2**30}
_PRECISIONS = {"cpu": ("fp32",), "cuda": ("bf16", "fp32")}
_MOST_BATCH = {"cpu": 16, "cuda": 64}
_MEMORY_SHARE = 0.8  # that an item may hold as predicted
_FIRST_MODELS = 2  # measured before the items that all models need
_USUAL_WORDS: Mapping[str, str] = MappingProxyType({})
# Further software settings with which the first models are measured.
_WORDS: Mapping[str, Sequence[Mapping[str, str]]] = {
    "cpu": (),
    "cuda": (
        {"memory_format": "channels_last", "optimizer_kernels": "fused"},
        {"execution": "cuda-graph"},
        {"execution": "compile"},
    ),
}
_IMAGE_DIMENSIONS = 3  # dimensions of an image
# Collectives that a profile needs, in order of how many strategies use them.
_OPERATIONS = (("all-reduce",), ("reduce-scatter", "all-gather"), ("broadcast", "all-to-all"))
# Approximate seconds of an item, by device: for each operation, model, and other benchmark.
_SECONDS = {
    "cpu": {"operation": 6.0, "model": 20.0, "spread": 10.0, "other": 6.0},
    "cuda": {"operation": 8.0, "model": 25.0, "spread": 12.0, "other": 8.0},
}


def items_of(
    node: Here, here: Scenario, ranks: int, backend: str, models: Sequence[str]
) -> list[Item]:
    """Return all items of a profile of ``node``, which ``here`` describes.

    Collectives and the spread of ranks' computing are measured on all ranks, and again on two if
    there are more: the two show how they grow with ranks. Raises DpsimError for a model that cannot
    be built here.
    """
    for model in models:
        _subject(model)
    arguments = node, here, ranks, backend, models
    return [*_by_all(*arguments), *_by_two(*arguments)]


def _subject(model: str) -> Subject:
    return subject(Settings(what=("layers",), model=model))


def _by_all(
    node: Here, here: Scenario, ranks: int, backend: str, models: Sequence[str]
) -> Iterator[Item]:
    make = _Maker(node, here, ranks, backend)
    usual, *others = _PRECISIONS[node.kind]
    # A single rank has no other to send to.
    collectives = [make.collectives(names) for names in _OPERATIONS if ranks > 1]
    yield from collectives[:1]
    yield from (make.model(model, usual) for model in models[:_FIRST_MODELS])
    yield make.other("products", "optimizer", "copies")
    if ranks > 1:
        yield make.beside(models[0], usual)
        yield from (make.wrapped(model, usual) for model in models[:_FIRST_MODELS])
    yield from collectives[1:]
    if ranks > 1 and node.kind == "cpu":
        yield served_item(node, ranks, backend, _SECONDS[node.kind]["other"])
    yield from (make.model(model, usual) for model in models[_FIRST_MODELS:])
    yield make.other("codecs", *(["point-to-point"] if ranks > 1 else []))
    yield from (make.model(model, precision) for precision, model in product(others, models))
    for words, model in product(_WORDS[node.kind], models[:_FIRST_MODELS]):
        if "memory_format" not in words or len(_subject(model).shape) == _IMAGE_DIMENSIONS:
            yield make.model(model, usual, words=words)


def _by_two(
    node: Here, here: Scenario, ranks: int, backend: str, models: Sequence[str]
) -> Iterator[Item]:
    if ranks <= 2:
        return
    make = _Maker(node, here, 2, backend)
    yield from map(make.collectives, _OPERATIONS)
    for precision, model in product(_PRECISIONS[node.kind], models):
        yield make.model(model, precision, "spread")


class _Maker:
    """Makes items for a number of ranks of a node."""

    def __init__(self, node: Here, here: Scenario, ranks: int, backend: str) -> None:
        self._node = node
        self._here = here
        self._ranks = ranks
        self._backend = backend
        self._seconds = _SECONDS[node.kind]

    def collectives(self, names: Sequence[str]) -> Item:
        """Return operations by the library, over all sizes."""
        return self._item(
            ", ".join(names),
            len(names) * self._seconds["operation"],
            what=("collectives",),
            operations=tuple(names),
            begin=1024,
            end=_LARGEST_BYTES[self._node.kind],
            factor=4,
            iterations=10,
        )

    def other(self, *what: str) -> Item:
        """Return benchmarks that need no model."""
        return self._item(
            ", ".join(what),
            len(what) * self._seconds["other"],
            what=what,
            begin=2**16,
            end=min(_LARGEST_BYTES[self._node.kind], 2**24),
            factor=16,
            iterations=5,
        )

    def model(
        self, model: str, precision: str, *what: str, words: Mapping[str, str] = _USUAL_WORDS
    ) -> Item:
        """Return steps of a model over batch sizes on all ranks at once, by default with layers.

        Layer times come from all ranks at once; runs with fewer ranks show how much faster they
        are. ``words`` are changes of the usual software settings.
        """
        return self._item(
            ", ".join([f"{model} in {precision}", *words.values()]),
            self._seconds["spread" if what else "model"],
            what=what or ("layers", "spread"),
            model=model,
            precision=precision,
            batch_sizes=self._batches(model, precision),
            iterations=8,
            **words,
        )

    def beside(self, model: str, precision: str) -> Item:
        """Return the slow-down of the model's step by a concurrent all-reduce."""
        batches = self._batches(model, precision)
        return self._item(
            f"{model} in {precision} beside all-reduces",
            self._seconds["other"],
            what=("beside",),
            model=model,
            precision=precision,
            batch_sizes=batches[-1:],
            begin=2**18,
            end=2**22 if self._node.kind == "cpu" else 2**28,
            factor=4,
            iterations=8,
        )

    def wrapped(self, model: str, precision: str) -> Item:
        """Return steps of a model without and in torch's wrappers, without communication."""
        batch = self._batches(model, precision)[-1]
        arguments = self._node, self._ranks, self._backend, model, precision, batch
        return wrapped_item(*arguments, self._seconds["model"])

    def _batches(self, model: str, precision: str) -> tuple[int, ...]:
        """Return four batch sizes, each twice the previous one, that should fit the memory."""
        largest = _MOST_BATCH[self._node.kind]
        while model in MODELS and largest > 1 and not self._fits(model, precision, largest):
            largest //= 2
        return tuple(sorted({max(largest >> power, 1) for power in range(4)}))

    def _fits(self, model: str, precision: str, batch: int) -> bool:
        workload = WorkloadConfig(model=model, batch_per_gpu=batch, precision=precision)
        use = memory_use(self._here.model_copy(update={"workload": workload}))
        return use.held.total <= _MEMORY_SHARE * self._node.memory

    def _item(self, name: str, seconds: float, **settings: Any) -> Item:
        measured = Settings(
            device=self._node.kind,
            backend=self._backend,
            at_once=True,
            # Many long messages in a row over a slow network take minutes, and none is lost.
            timeout=PATIENCE_S,
            **settings,
        )
        return Item(
            name=f"{name} by {self._ranks} ranks",
            ranks=self._ranks,
            backend=self._backend,
            seconds=seconds,
            settings=measured.checked(),
        )
