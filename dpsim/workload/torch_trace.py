"""Layers of a user's torch module, traced on the meta device.

The trace uses shapes only: no weights are allocated, and nothing is computed.

One training step of a few samples (batch norm needs more than one) runs under a dispatch mode that
records every operator: FLOP by the formulas of `torch.utils.flop_counter`, traffic as the elements
that it reads and writes except weights, and the tensors that autograd saves as activations. Forward
operators belong to the innermost module that runs them, backward operators to the module whose
forward created their node of the graph; a module's operators outside its children are one layer. A
layer's activations are saved bytes / 4, so that they scale like fp32 elements.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from math import prod
from time import monotonic
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate
from dpsim.workload.layer import Kind, Layer, Model
from dpsim.workload.module_hooks import NodeOwners, collect_outputs, hooked
from dpsim.workload.profile import shortened
from dpsim.workload.torch_factory import explained, find_factory, import_torch
from dpsim.workload.torch_operators import FREE, allocates, kind_of
from dpsim.workload.torch_stand_ins import StandIns, formulas, fused_attention

_SAMPLES = 7  # a rare dimension, so that no activation has the shape of a weight
_FIRST_REPORT = 3.0  # seconds after which a trace first reports its progress
_REPORT_INTERVAL = 10.0  # seconds between later reports


def trace(factory: str, shape: tuple[int, ...], dtype: str = "float32") -> Model:
    """Trace the model that ``factory()`` returns, for samples of ``shape``.

    ``notes`` name operators without a FLOP formula, modules that did not run, and guesses. Raises
    DpsimError if torch is missing, the factory cannot be imported or called, or its module cannot
    be traced.
    """
    torch = import_torch()
    function = find_factory(factory)
    with explained(factory, "cannot be called"), torch.device("meta"):
        module = function()
    if not isinstance(module, torch.nn.Module):
        raise DpsimError(
            f"{factory}: must return a torch.nn.Module, but returned {type(module).__name__}"
        )
    with explained(factory, "cannot be traced on the meta device"):
        module = module.to("meta").train()
        return trace_module(module, shape, factory, dtype=dtype)


def trace_module(
    module: Any, shape: tuple[int, ...], name: str, *, dtype: str = "float32"
) -> Model:
    """Return the model of a module that is already on the meta device and in training mode."""
    entering = _samples(shape, dtype)
    sample = "x".join(map(str, shape)) + " input"
    model = _traced(module, lambda: module(entering), name, sample)
    # Integer inputs are tokens.
    return replace(model, tokens=prod(shape)) if dtype == "int64" else model


def trace_call(
    module: Any, inputs: Mapping[str, tuple[tuple[int, ...], str]], name: str, sample: str
) -> Model:
    """Return the model of a module with named inputs, each given by a sample's shape and dtype.

    The backward pass starts at the output's loss, if it has one.
    """
    entering = {key: _samples(*one) for key, one in inputs.items()}

    def run() -> Any:
        answer = module(**entering)
        loss = answer.get("loss") if isinstance(answer, Mapping) else None
        return answer if loss is None else loss

    return _traced(module, run, name, sample)


def _samples(shape: tuple[int, ...], dtype: str) -> Any:
    torch = import_torch()
    return torch.empty((_SAMPLES, *shape), dtype=getattr(torch, dtype), device="meta")


def _traced(module: Any, run: Callable[[], Any], name: str, sample: str) -> Model:
    """Run a step of the module, forward by ``run``, and collect its operators."""
    torch = import_torch()
    recorder = _Recorder(torch, module, name)
    outputs: list[Any] = []
    with (
        recorder.hooked(),
        fused_attention(torch),
        recorder.mode(),
        torch.autograd.graph.saved_tensors_hooks(recorder.saved, lambda tensor: tensor),
    ):
        collect_outputs(torch, run(), outputs)
        if outputs:
            recorder.backward = True
            # Only the shape of a gradient matters on the meta device.
            torch.autograd.backward(outputs, [torch.empty_like(output) for output in outputs])
    if not outputs:
        raise DpsimError(
            f"{name}: must return tensors that depend on its parameters, but returned none"
        )
    return recorder.model(name, sample)


class _Progress:
    """Reports the progress of a slow trace."""

    def __init__(self, name: str, modules: int) -> None:
        self._name = name
        self._modules = modules
        self._start = monotonic()
        self._next = _FIRST_REPORT

    def at(self, modules: int, backward: bool) -> None:
        """Report that ``modules`` have run; ``backward``: in the backward pass."""
        taken = monotonic() - self._start
        if taken < self._next:
            return
        self._next = taken + _REPORT_INTERVAL
        pass_ = "backward" if backward else "forward"
        narrate(
            f"tracing {self._name} with torch: {pass_} pass, {modules} of {self._modules} modules "
            f"seen after {taken:.0f} s"
        )


class _Amounts:
    """The amounts of a module without its children, for all samples of the trace."""

    def __init__(self) -> None:
        self.flop = [0, 0]  # forward, backward
        self.traffic = [0, 0]
        self.kept = 0  # bytes
        self.kinds: dict[Kind, int] = {}


class _Recorder:
    """Records all operators by the innermost module that ran them, in the order of first use."""

    def __init__(self, torch: Any, module: Any, name: str) -> None:
        self._torch = torch
        self._root = module
        self._progress = _Progress(name, sum(1 for _ in module.modules()))
        counter = importlib.import_module("torch.utils.flop_counter")
        self._formulas: dict[Any, Callable[..., int]] = counter.flop_registry
        self._own_formulas = formulas(torch)
        self._stand_ins = StandIns(torch)
        self._used: set[int] = set()  # storages of weights that an operator has read
        self._storages: dict[int, Any] = {}  # kept alive, so that an address identifies one storage
        self._weights = {
            self._address(tensor) for tensor in [*module.parameters(), *module.buffers()]
        }
        shapes = {tuple(parameter.shape) for parameter in module.parameters()}
        # Autograd computes the gradients of some products transposed.
        self._gradients = shapes | {shape[::-1] for shape in shapes}
        self._stack: list[str] = []  # modules whose forward is running
        self._node = ""  # the module whose node runs backward
        self._nodes = NodeOwners(torch, partial(setattr, self, "_node"))
        self.backward = False
        self.amounts: dict[str, _Amounts] = {}
        self.unknown: dict[str, None] = {}

    def _address(self, tensor: Any) -> int:
        storage = tensor.untyped_storage()
        self._storages.setdefault(storage._cdata, storage)
        return int(storage._cdata)

    def _current(self) -> _Amounts:
        """Return the amounts of the innermost forward module, or of the backward node's module."""
        return self.amounts.setdefault(self._stack[-1] if self._stack else self._node, _Amounts())

    def hooked(self) -> AbstractContextManager[None]:
        """Return a context that tracks the modules as they run."""
        return hooked(self._root, self._enter, self._leave)

    def _enter(self, path: str, module: Any, args: Any, kwargs: Any) -> None:
        # The surrounding module created the input, so it claims the input's nodes before this
        # module's output does.
        self._nodes.claim((args, kwargs), self._stack[-1] if self._stack else "")
        self._stack.append(path)

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        self._nodes.claim(output, self._stack.pop())

    def saved(self, tensor: Any) -> Any:
        """Count a tensor that autograd saves for backward: each storage once, weights never."""
        # The table of storages grows with each new address.
        known = len(self._storages)
        address = self._address(tensor)
        if address not in self._weights and len(self._storages) > known:
            self._current().kept += tensor.untyped_storage().nbytes()
        return tensor

    def mode(self) -> Any:
        """Return the dispatch mode that records every operator."""
        base = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
        outer = self

        class Mode(base):  # type: ignore[misc,valid-type]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                kwargs = kwargs or {}
                result = outer._stand_ins.answer(func, args, kwargs)
                if result is not NotImplemented:
                    outer.record(func, args, kwargs, result)
                    return result
                packet = func._overloadpacket
                if (
                    packet not in outer._formulas
                    and func is not outer._torch.ops.prim.device.default
                ):
                    # Record a composite operator's parts, if torch can decompose it.
                    with self:
                        result = func.decompose(*args, **kwargs)
                    if result is not NotImplemented:
                        return result
                result = func(*args, **kwargs)
                outer.record(func, args, kwargs, result)
                return result

        return Mode()

    def record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Count one operator."""
        packet, name = func._overloadpacket, str(func._overloadpacket)
        amounts, backward = self._current(), int(self.backward)
        self._progress.at(len(self.amounts), self.backward)
        own = self._own_formulas.get(packet)
        formula = self._formulas.get(packet)
        moved = 0 if func.is_view or allocates(name) else self._moved(args, result)
        kind = kind_of(name)
        if kind == "norm":  # reads its input twice: for the moments, and to use them
            tensors = (leaf for leaf in args if isinstance(leaf, self._torch.Tensor))
            moved += max((tensor.numel() for tensor in tensors), default=0)
        amounts.traffic[backward] += moved
        # Own formulas first: torch's may be missing, or differ between versions.
        if own is not None:
            amounts.flop[backward] += own(*args, **kwargs)
        elif formula is not None:
            amounts.flop[backward] += int(formula(*args, **kwargs, out_val=result))
        elif not self._is_cheap(func, name):
            self.unknown.setdefault(name)
        amounts.kinds[kind] = amounts.kinds.get(kind, 0) + moved

    def _is_cheap(self, func: Any, name: str) -> bool:
        """Return whether an operator has no matrix products: it moves data, or is pointwise."""
        pointwise = self._torch.Tag.pointwise in func.tags
        known_free = name.removeprefix("aten.").rstrip("_") in FREE
        return known_free or pointwise or bool(func.is_view)

    def _moved(self, args: Any, result: Any) -> int:
        """Return the elements of an operator's tensors, except weights and their gradients."""
        tree = importlib.import_module("torch.utils._pytree")
        leaves = [
            leaf
            for leaf in tree.tree_leaves((args, result))
            if isinstance(leaf, self._torch.Tensor)
        ]
        addresses = {leaf.untyped_storage()._cdata for leaf in leaves}
        self._used |= addresses & self._weights
        return sum(leaf.numel() for leaf in leaves if not self._is_weight(leaf))

    def _is_weight(self, tensor: Any) -> bool:
        """Return whether a tensor is a weight, or in the backward pass a weight's gradient."""
        return tensor.untyped_storage()._cdata in self._weights or (
            self.backward and tuple(tensor.shape) in self._gradients
        )

    def model(self, name: str, sample: str) -> Model:
        """Return the model of the recorded layers, per sample."""
        layers, idle = [], []
        owners: dict[int, str] = {}
        modules = dict(self._root.named_modules())
        # By first use, then modules that never ran.
        for path in (*self.amounts, *(path for path in modules if path not in self.amounts)):
            own, borrowed, trains = [], 0, False
            for parameter in modules[path].parameters(recurse=False):
                trains |= parameter.requires_grad
                # A shared tensor belongs to the first module; others borrow it.
                if owners.setdefault(id(parameter), path) == path:
                    own.append(int(parameter.numel()))
                else:
                    borrowed += int(parameter.numel())
            amounts = self.amounts.get(path, _Amounts())
            if own and path not in self.amounts and not self._is_used(modules[path]):
                idle.append(path or name)
            if own or any(amounts.flop) or any(amounts.traffic):
                shown = path or type(self._root).__name__
                layer = _layer(shown, amounts, tuple(own), borrowed)
                # A partly trained module counts as trained.
                frozen = bool(own or borrowed) and not trains
                over_batch = isinstance(modules[path], self._torch.nn.modules.batchnorm._BatchNorm)
                layers.append(replace(layer, frozen=frozen, over_batch=over_batch))
        return Model(name, tuple(layers), sample, notes=self._notes(idle))

    def _is_used(self, module: Any) -> bool:
        """Return whether any operator has read a parameter of the module.

        `nn.MultiheadAttention` uses its output projection without running that module.
        """
        addresses = {
            parameter.untyped_storage()._cdata for parameter in module.parameters(recurse=False)
        }
        return bool(addresses & self._used)

    def _notes(self, idle: list[str]) -> tuple[str, ...]:
        """Return a line for each uncertainty of the trace; ``idle`` modules did not run."""
        notes = []
        if idle:
            have = "has" if len(idle) == 1 else "have"
            were = "was" if len(idle) == 1 else "were"
            notes.append(f"{shortened(idle)} {have} parameters but {were} not run")
        notes += [
            f"operator {operator} has no FLOP formula, so its FLOP are not counted"
            for operator in self.unknown
        ]
        if self._stand_ins.guessed:
            guessed = ", ".join(self._stand_ins.guessed)
            notes.append(
                f"assumed: the forward pass asks for data ({guessed}), which a trace does not "
                "have: flags are assumed not set, and sizes as large as possible"
            )
        return tuple(notes)


def _layer(name: str, amounts: _Amounts, parameters: tuple[int, ...], borrowed: int) -> Layer:
    kinds = amounts.kinds
    # A module with products has their kind, even if other operators move more.
    product = (
        [kind for kind in ("conv", "attention", "linear") if kind in kinds]
        if any(amounts.flop)
        else []
    )
    kind: Kind = max(product or list(kinds), key=lambda one: kinds[one], default="elementwise")  # type: ignore[arg-type]
    return Layer(
        name,
        kind,
        parameters,
        borrowed=borrowed,
        forward_flop=amounts.flop[0] // _SAMPLES,
        backward_flop=amounts.flop[1] // _SAMPLES,
        forward_traffic=amounts.traffic[0] // _SAMPLES,
        backward_traffic=amounts.traffic[1] // _SAMPLES,
        activations=amounts.kept // 4 // _SAMPLES,
    )
