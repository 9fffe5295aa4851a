"""A scenario's model as a torch module, and the shape of its samples.

A model of the catalogue, or of a configuration, is a family's function with its sizes; the torch
twin of that family takes the same sizes. A user's own factory is used unchanged.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dpsim.workload import MODELS, WorkloadConfig, find_factory

Sizes = dict[str, Any]
_WEIGHT_DEVIATION = 0.02  # the standard deviation of all of GPT-2's weights


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to run: how to ``build`` it, and the ``shape`` and ``dtype`` of one sample.

    ``words`` is the number of different tokens. ``drawn``: `draw` can create all tensors of
    ``build``, which it cannot if a user's own model computes some itself.
    """

    name: str
    build: Callable[[], Any]
    shape: tuple[int, ...]
    dtype: str
    words: int = 2
    drawn: bool = True

    def module(self, device: Any, seed: int = 0) -> Any:
        """Return a new module on ``device`` in training mode, its weights drawn from ``seed``."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # Build on the device, since a CPU takes minutes to draw billions of weights.
            with torch.device(device):
                module = self.build()
            return module.to(device).train()

    def outline(self, device: Any, seed: int = 0) -> Any:
        """Return a module without weights, on the meta device, if `draw` can create them later."""
        if not self.drawn:
            return self.module(device, seed)
        with torch.device("meta"):
            return self.build().train()

    def batch(self, samples: int, device: Any) -> Any:
        """Return random samples on the device."""
        shape = (samples, *self.shape)
        if self.dtype == "int64":
            return torch.randint(self.words, shape, device=device)
        return torch.randn(shape, device=device)


def draw(part: nn.Module, device: Any) -> None:
    """Draw missing weights of ``part`` on ``device``, the same ones in every process.

    By the rule of each of torch's modules, and from a narrow normal distribution for parameters
    without one. Parameters that modules share (a tied output) stay shared.
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
                    made[parameter] = nn.Parameter(room.normal_(std=_WEIGHT_DEVIATION))
                setattr(module, name, made[parameter])
            for name, buffer in module.named_buffers(recurse=False):
                if buffer.is_meta:
                    setattr(module, name, torch.zeros_like(buffer, device=device))
            if empty and hasattr(module, "reset_parameters"):
                module.reset_parameters()


def subject_of(workload: WorkloadConfig, *, flash: bool = True) -> Subject | None:
    """Return the model of ``workload`` in torch, None if it has no twin.

    ``flash``: its GPUs have fused attention, unless stated otherwise.
    """
    if isinstance(workload.model, str):
        entry, name = MODELS[workload.model], workload.model
    else:
        source: Any = workload.model
        own = getattr(source, "torch", None)
        if own is not None:
            return factory_subject(own, source.input, source.dtype)
        entry, name = source.entry(), "config"
    # Entries whose models have no sequence have no usual length.
    length = workload.sequence_length or getattr(entry, "usual", None)
    found = _sizes(getattr(entry, "factory", None), length)
    if found is None:
        return None
    home, sizes = found
    attention = workload.attention or entry.attention
    if attention is not None or entry.fusible:
        sizes["fused"] = flash if attention is None else attention == "flash"
    return _twin(name, home, sizes)


def factory_subject(factory: str, shape: Sequence[int], dtype: str) -> Subject:
    """Return a user's own model ``package.module:factory``, with one sample's shape and dtype."""
    build = find_factory(factory)
    entries = 2
    if dtype == "int64":
        # Numbers are looked up in embeddings, so they must be below the smallest one's entries.
        with torch.device("meta"):
            parts = build().modules()
        found = [part.num_embeddings for part in parts if isinstance(part, nn.Embedding)]
        entries = min(found, default=2)
    return Subject(factory, build, tuple(shape), dtype, entries, drawn=False)


def _sizes(factory: Any, sequence_length: int | None) -> tuple[str, Sizes] | None:
    """Return the family's function as ``module:name``, and its arguments; None without a twin."""
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
    # Arguments left out in the catalogue have the function's defaults.
    signature = inspect.signature(function)
    given: Mapping[str, Any] = settings
    if "sequence_length" in signature.parameters:
        given = {**settings, "sequence_length": sequence_length}
    bound = signature.bind(*arguments, **given)
    bound.apply_defaults()
    sizes = dict(bound.arguments)
    # ``more`` collects any other keyword arguments of the family's function.
    sizes |= sizes.pop("more", {})
    return home, sizes


def _twin(name: str, home: str, sizes: Sizes) -> Subject | None:
    """Return the twin with the ``sizes`` that it accepts; None for an unknown LLaMA."""
    module, _, function = _TWINS[home].partition(":")
    build = getattr(importlib.import_module(f"validate.twins.{module}"), function)
    accepted = inspect.signature(build).parameters
    if function == "Llama":
        from dpsim.workload.models import Llama

        # Fields left out in the catalogue have the shape's defaults.
        defaults = {field.name: field.default for field in fields(Llama)}
        sizes = {**defaults, **sizes}
        # Other norms, experts, windows.
        if any(sizes[field] != defaults[field] for field in defaults.keys() - accepted.keys()):
            return None
    made = partial(build, **{size: value for size, value in sizes.items() if size in accepted})
    if "words" in accepted:
        return Subject(name, made, (sizes["sequence_length"],), "int64", sizes["words"])
    side = sizes.get("image", 224)
    return Subject(name, made, (sizes.get("channels", 3), side, side), "float32")


# The torch twin (module:class of this package) for each function that builds a family's layers.
_TWINS: Mapping[str, str] = {
    "bert:bert": "transformers:Bert",
    "gpt:gpt": "transformers:Gpt",
    "llama:llama": "transformers:Llama",
    "resnet:resnet": "vision:resnet",
    "vgg:vgg": "vision:vgg",
    "vit:vit": "vision:Vit",
}
