"""What a scenario's workload trains, as a torch module, and one sample of what it is fed.

A model of the catalogue, or of a configuration, is the function of its family with its sizes; the
twin of that family takes the same sizes. A user's own factory is taken as it is.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dpsim.workload import MODELS, WorkloadConfig, find_factory

Sizes = dict[str, Any]
_NARROW = 0.02  # as GPT-2 draws all its weights


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to run: how to ``build`` it, and the ``shape`` and ``dtype`` of one sample.

    Of tokens, ``words`` is how many there are. ``drawn``: `draw` can make all that ``build`` makes,
    as it cannot where a user's own model computes something of its own.
    """

    name: str
    build: Callable[[], Any]
    shape: tuple[int, ...]
    dtype: str
    words: int = 2
    drawn: bool = True

    def module(self, device: Any, seed: int = 0) -> Any:
        """A new module on ``device`` in training mode, its weights drawn from ``seed``."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # Made on the device: a processor draws billions of weights for minutes.
            with torch.device(device):
                module = self.build()
            return module.to(device).train()

    def outline(self, device: Any, seed: int = 0) -> Any:
        """A module without weights, on the meta device, where `draw` can make them later."""
        if not self.drawn:
            return self.module(device, seed)
        with torch.device("meta"):
            return self.build().train()

    def batch(self, samples: int, device: Any) -> Any:
        """Random samples, made up on the device."""
        shape = (samples, *self.shape)
        if self.dtype == "int64":
            return torch.randint(self.words, shape, device=device)
        return torch.randn(shape, device=device)


def draw(part: nn.Module, device: Any) -> None:
    """Give ``part`` weights on ``device`` where it has none yet, the same ones in every process.

    By the rule of each of torch's modules, and from a narrow bell for parameters without one. What
    modules have in common (a tied output) stays so.
    """
    made: dict[Tensor, Tensor] = {}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        for module in part.modules():
            own = dict(module.named_parameters(recurse=False))
            empty = {name: each for name, each in own.items() if each.is_meta}
            for name, parameter in empty.items():
                if parameter not in made:
                    room = torch.empty_like(parameter, device=device)
                    made[parameter] = nn.Parameter(room.normal_(std=_NARROW))
                setattr(module, name, made[parameter])
            for name, buffer in module.named_buffers(recurse=False):
                if buffer.is_meta:
                    setattr(module, name, torch.zeros_like(buffer, device=device))
            if empty and hasattr(module, "reset_parameters"):
                module.reset_parameters()


def subject_of(workload: WorkloadConfig, *, flash: bool = True) -> Subject | None:
    """The model of ``workload`` in torch, None where it has no twin.

    ``flash``: its GPUs have fused attention, where nothing says else.
    """
    if isinstance(workload.model, str):
        entry, name = MODELS[workload.model], workload.model
    else:
        source: Any = workload.model
        own = getattr(source, "torch", None)
        if own is not None:
            return factory_subject(own, source.input, source.dtype)
        entry, name = source.entry(), "config"
    # Entries whose models have no sequence state no usual length of one.
    length = workload.sequence_length or getattr(entry, "usual", None)
    found = _sizes(getattr(entry, "factory", None), length)
    if found is None:
        return None
    home, sizes = found
    attention = workload.attention or entry.attention
    if attention is not None or entry.fusible:
        sizes["fused"] = flash if attention is None else attention == "flash"
    return _TWINS[home](name, sizes)


def factory_subject(factory: str, shape: Sequence[int], dtype: str) -> Subject:
    """A user's own model, ``package.module:factory``; ``shape`` and ``dtype`` of one sample."""
    build = find_factory(factory)
    entries = 2
    if dtype == "int64":
        # A number is looked up in an embedding, so it must be below the entries of the smallest.
        with torch.device("meta"):
            parts = build().modules()
        found = [part.num_embeddings for part in parts if isinstance(part, nn.Embedding)]
        entries = min(found, default=2)
    return Subject(factory, build, tuple(shape), dtype, entries, drawn=False)


def _sizes(factory: Any, sequence_length: int | None) -> tuple[str, Sizes] | None:
    """The family's function as ``module:name``, and its arguments by name; None without a twin."""
    if isinstance(factory, partial):
        function, arguments, settings = factory.func, factory.args, factory.keywords
    elif hasattr(factory, "home"):
        module, _, name = factory.home.partition(":")
        function = getattr(importlib.import_module(module), name)
        arguments, settings = factory.arguments, factory.settings
    else:
        return None
    home = f"{function.__module__.rpartition('.')[2]}:{function.__name__}"
    if home not in _TWINS:
        return None
    # What a line of the catalogue leaves out is as the family's function has it.
    signature = inspect.signature(function)
    given: Mapping[str, Any] = settings
    if "sequence_length" in signature.parameters:
        given = {**settings, "sequence_length": sequence_length}
    bound = signature.bind(*arguments, **given)
    bound.apply_defaults()
    sizes = dict(bound.arguments)
    # ``more`` is where the family's function takes any other keyword arguments.
    sizes |= sizes.pop("more", {})
    shape = sizes.pop("shape", None)
    if is_dataclass(shape):
        sizes = {field.name: getattr(shape, field.name) for field in fields(shape)} | sizes
    return home, sizes


def _only(sizes: Sizes, *names: str) -> Sizes:
    return {name: sizes[name] for name in names if name in sizes}


def _gpt(name: str, sizes: Sizes) -> Subject:
    from validate.twins.gpt import Gpt

    own = _only(sizes, "blocks", "width", "heads", "positions", "words", "inner", "tied", "fused")
    return Subject(name, partial(Gpt, **own), (sizes["sequence_length"],), "int64", sizes["words"])


def _bert(name: str, sizes: Sizes) -> Subject:
    from validate.twins.bert import Bert

    own = _only(
        sizes, "blocks", "width", "heads", "positions", "words", "segments", "inner", "fused"
    )
    return Subject(name, partial(Bert, **own), (sizes["sequence_length"],), "int64", sizes["words"])


def _llama(name: str, sizes: Sizes) -> Subject | None:
    """None for shapes that the twin does not have: other norms, experts, windows."""
    from dpsim.workload.models import Llama as Shape
    from validate.twins.llama import Llama

    # What a line of the catalogue leaves out is as the shape has it.
    defaults = {field.name: field.default for field in fields(Shape)}
    own = {field: sizes.get(field, default) for field, default in defaults.items()}
    known = inspect.signature(Llama).parameters
    if any(own[field] != defaults[field] for field in own if field not in known):
        return None
    taken = {field: own[field] for field in own if field in known}
    shape = (sizes["sequence_length"],)
    return Subject(name, partial(Llama, **taken), shape, "int64", own["words"])


def _resnet(name: str, sizes: Sizes) -> Subject:
    from validate.twins.vision import resnet

    own = _only(sizes, "depths", "basic")
    return Subject(name, partial(resnet, **own), (3, 224, 224), "float32")


def _vgg(name: str, sizes: Sizes) -> Subject:
    from validate.twins.vision import vgg

    return Subject(name, partial(vgg, sizes["depths"]), (3, 224, 224), "float32")


def _vit(name: str, sizes: Sizes) -> Subject:
    from validate.twins.vision import Vit

    own = _only(
        sizes,
        "blocks",
        "width",
        "heads",
        "patch",
        "image",
        "inner",
        "classes",
        "channels",
        "fused",
    )
    shape = (sizes["channels"], sizes["image"], sizes["image"])
    return Subject(name, partial(Vit, **own), shape, "float32")


# By the function that builds the family's layers: what builds the same in torch.
_TWINS: Mapping[str, Callable[[str, Sizes], Subject | None]] = {
    "bert:bert": _bert,
    "gpt:gpt": _gpt,
    "llama:llama": _llama,
    "llama:of_shape": _llama,
    "llama:of_sizes": _llama,
    "resnet:resnet": _resnet,
    "vgg:vgg": _vgg,
    "vit:vit": _vit,
}
