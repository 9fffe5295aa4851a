"""Layers of a user's torch module, traced on the meta device.

Shapes only, no weights allocated, nothing computed.

One training step of a few samples (batch norm wants more than one) runs under a dispatch mode that
sees every operator: FLOP by the formulas of `torch.utils.flop_counter`, traffic as elements of the
tensors that each operator reads and writes, weights apart, and what autograd saves as activations.
Operators are put down to the innermost module that runs them, those of the backward pass to the
module whose forward made their node of the graph; what a module computes outside its children is a
layer of its own. A layer's activations are bytes saved / 4, so that they scale as fp32 elements do.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from dpsim.base.errors import DpsimError, how_to_install
from dpsim.workload.layer import Kind, Layer, Model
from dpsim.workload.module_hooks import NodeOwners, collect_outputs, hooked
from dpsim.workload.torch_operators import FREE, allocates, kind_of, reads_twice

_SAMPLES = 7  # a number that makes no shape of activations look like one of weights
_LONGEST_TEXT = 300


def check_factory(factory: str) -> tuple[str, str, str]:
    """Splits ``package.module:factory`` or ``file.py:factory``.

    Raises DpsimError for anything else.
    """
    where, colon, name = factory.rpartition(":")
    module = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", where) or where.endswith(".py")
    if not (colon and module and re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name)):
        raise DpsimError(f"must be package.module:factory or file.py:factory, but got {factory!r}")
    return where, colon, name


def trace(factory: str, shape: tuple[int, ...], dtype: str = "float32") -> Model:
    """The model that ``factory()`` returns, for samples of ``shape``.

    ``notes`` name the operators without a FLOP formula. Raises DpsimError where torch is missing,
    the factory cannot be imported or called, or its module cannot be traced.
    """
    torch = import_torch()
    function = find_factory(factory)
    with _explained(factory, "cannot be called"), torch.device("meta"):
        module = function()
    if not isinstance(module, torch.nn.Module):
        raise DpsimError(
            f"{factory}: must return a torch.nn.Module, but returned {type(module).__name__}"
        )
    with _explained(factory, "cannot be traced on the meta device"):
        module = module.to("meta").train()
        return trace_module(module, shape, factory, dtype=dtype)


def import_torch(what: str = "a torch model") -> Any:
    """The torch package, which ``what`` needs.

    Raises DpsimError with how to install it where it is missing.
    """
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise DpsimError(f"{what} needs torch; {how_to_install('validate')}") from None


def trace_module(
    module: Any, shape: tuple[int, ...], name: str, *, dtype: str = "float32"
) -> Model:
    """The model of a module that is on the meta device and in training mode already."""
    torch = import_torch()
    batch = (_SAMPLES, *shape)
    entering = torch.empty(batch, dtype=getattr(torch, dtype), device="meta")
    seen = _Seen(torch, module)
    outputs: list[Any] = []
    with (
        seen.hooked(),
        seen.mode(),
        torch.autograd.graph.saved_tensors_hooks(seen.saved, lambda tensor: tensor),
    ):
        collect_outputs(torch, module(entering), outputs)
        if outputs:
            seen.backward = True
            torch.autograd.backward(outputs, [torch.empty_like(output) for output in outputs])
    if not outputs:
        raise DpsimError(
            f"{name}: must return tensors that depend on its parameters, but returned none"
        )
    model = seen.model(name, shape)
    # Integers that go in are the numbers of words.
    return replace(model, tokens=prod(shape)) if dtype == "int64" else model


class _Amounts:
    """What one module does itself, for all samples of the trace."""

    def __init__(self) -> None:
        self.flop = [0, 0]  # forward, backward
        self.traffic = [0, 0]
        self.kept = 0  # bytes
        self.kinds: dict[Kind, int] = {}


class _Seen:
    """Everything that ran, by the name of the innermost module that ran it.

    In the order of first use.
    """

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self._root = module
        self._formulas: dict[Any, Callable[..., int]] = importlib.import_module(
            "torch.utils.flop_counter"
        ).flop_registry
        self._storages: dict[int, Any] = {}  # kept alive, so that an address is one storage
        self._weights = {
            self._address(tensor) for tensor in [*module.parameters(), *module.buffers()]
        }
        shapes = {tuple(parameter.shape) for parameter in module.parameters()}
        self._gradients = shapes | {shape[::-1] for shape in shapes}
        self._stack: list[str] = []  # modules whose forward is running
        self._nodes = NodeOwners(torch, self._at_node)
        self._node = ""  # whose node runs backward
        self.backward = False
        self.amounts: dict[str, _Amounts] = {}
        self.unknown: dict[str, None] = {}

    def _address(self, tensor: Any) -> int:
        storage = tensor.untyped_storage()
        self._storages.setdefault(storage._cdata, storage)
        return int(storage._cdata)

    def _here(self) -> _Amounts:
        """Of the innermost module, whose forward runs or whose node runs backward."""
        return self.amounts.setdefault(self._stack[-1] if self._stack else self._node, _Amounts())

    def hooked(self) -> AbstractContextManager[None]:
        """Follows the modules as they run, while it is open."""
        return hooked(self._root, self._enter, self._leave)

    def _enter(self, path: str, module: Any, args: Any, kwargs: Any) -> None:
        self._nodes.claim((args, kwargs), self._stack[-1] if self._stack else "")
        self._stack.append(path)

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        self._nodes.claim(output, self._stack.pop())

    def _at_node(self, path: str) -> None:
        self._node = path

    def saved(self, tensor: Any) -> Any:
        """Counts a tensor that autograd saves for the backward pass.

        Each storage counts once, weights not at all.
        """
        known = len(self._storages)
        address = self._address(tensor)
        if address not in self._weights and len(self._storages) > known:
            self._here().kept += tensor.untyped_storage().nbytes()
        return tensor

    def mode(self) -> Any:
        """The dispatch mode that records every operator."""
        base = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
        seen = self

        class Recorder(base):  # type: ignore[misc,valid-type]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                kwargs = kwargs or {}
                packet = func._overloadpacket
                if packet not in seen._formulas and func is not seen._torch.ops.prim.device.default:
                    # What an operator is made of is recorded in its place, where torch knows it.
                    with self:
                        result = func.decompose(*args, **kwargs)
                    if result is not NotImplemented:
                        return result
                result = func(*args, **kwargs)
                seen.record(func, args, kwargs, result)
                return result

        return Recorder()

    def record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Counts one operator."""
        packet, name = func._overloadpacket, str(func._overloadpacket)
        here, backward = self._here(), int(self.backward)
        formula = self._formulas.get(packet)
        moved = 0 if func.is_view or allocates(name) else self._moved(args, result)
        if reads_twice(name):
            moved += self._largest(args)
        here.traffic[backward] += moved
        if formula is not None:
            here.flop[backward] += int(formula(*args, **kwargs, out_val=result))
        elif not self._is_cheap(func, name):
            self.unknown.setdefault(name)
        kind = kind_of(name)
        here.kinds[kind] = here.kinds.get(kind, 0) + moved

    def _is_cheap(self, func: Any, name: str) -> bool:
        """Whether memory alone limits an operator: one that moves data or looks at each number."""
        pointwise = self._torch.Tag.pointwise in func.tags
        known_free = name.removeprefix("aten.").rstrip("_") in FREE
        return known_free or pointwise or bool(func.is_view)

    def _moved(self, args: Any, result: Any) -> int:
        """Elements of tensors in and out.

        Weights, and gradients of weights' shape, are left to the layer's parameters.
        """
        tree = importlib.import_module("torch.utils._pytree")
        leaves = [
            leaf
            for leaf in tree.tree_leaves((args, result))
            if isinstance(leaf, self._torch.Tensor)
        ]
        return sum(leaf.numel() for leaf in leaves if not self._is_weight(leaf))

    def _largest(self, args: Any) -> int:
        return max(
            (leaf.numel() for leaf in args if isinstance(leaf, self._torch.Tensor)), default=0
        )

    def _is_weight(self, tensor: Any) -> bool:
        """Whether it is a weight, or in the backward pass the gradient of one."""
        return tensor.untyped_storage()._cdata in self._weights or (
            self.backward and tuple(tensor.shape) in self._gradients
        )

    def model(self, name: str, shape: tuple[int, ...]) -> Model:
        """Its layers, per sample."""
        layers, notes = [], []
        owners: dict[int, str] = {}
        modules = dict(self._root.named_modules())
        for path in self._order(modules):
            own, borrowed = [], 0
            for parameter in modules[path].parameters(recurse=False):
                # A tensor that several modules use is the first one's; the others borrow it.
                if owners.setdefault(id(parameter), path) == path:
                    own.append(int(parameter.numel()))
                else:
                    borrowed += int(parameter.numel())
            amounts = self.amounts.get(path, _Amounts())
            if path not in self.amounts and own:
                notes.append(f"{path or name} has parameters but was not run")
            if own or any(amounts.flop) or any(amounts.traffic):
                shown = path or type(self._root).__name__
                layers.append(_layer(shown, amounts, tuple(own), borrowed))
        notes += [
            f"operator {operator} has no FLOP formula and counts none" for operator in self.unknown
        ]
        return Model(name, tuple(layers), "x".join(map(str, shape)) + " input", notes=tuple(notes))

    def _order(self, modules: dict[str, Any]) -> list[str]:
        """Modules by first use, then those that never ran."""
        return [*self.amounts, *(path for path in modules if path not in self.amounts)]


def _layer(name: str, amounts: _Amounts, parameters: tuple[int, ...], borrowed: int) -> Layer:
    kinds = amounts.kinds
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


def find_factory(factory: str) -> Callable[[], Any]:
    """The function that ``factory`` names.

    Modules are looked for on Python's path and then in the current folder.
    """
    where, _, name = check_factory(factory)
    with _explained(factory, "cannot be imported"):
        found: Any = _from_file(Path(where)) if where.endswith(".py") else _from_module(where)
    for part in name.split("."):
        if not hasattr(found, part):
            raise DpsimError(f"{factory}: {where} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise DpsimError(f"{factory}: must be a function or a class, but is {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _from_module(name: str) -> Any:
    sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(Path.cwd()))


def _from_file(path: Path) -> Any:
    """Runs the file as a module of its own; what it imports from beside it is found."""
    from importlib.util import module_from_spec, spec_from_file_location

    if not path.is_file():
        raise DpsimError(f"{path}: must be a Python file, but there is none of this name")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


class _explained:  # noqa: N801 - reads as what it does
    """Turns whatever a user's code raises into one line of DpsimError."""

    def __init__(self, factory: str, what: str) -> None:
        self._factory = factory
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: BaseException | None, traceback: Any) -> None:
        if isinstance(problem, DpsimError):
            return
        # A factory that calls sys.exit is one that failed: the other points of a sweep go on.
        if isinstance(problem, SystemExit):
            raise DpsimError(f"{self._factory}: {self._what}: it calls sys.exit") from problem
        if isinstance(problem, Exception):
            said = " ".join(str(problem).split()) or type(problem).__name__
            said = said if len(said) <= _LONGEST_TEXT else said[: _LONGEST_TEXT - 3] + "..."
            raise DpsimError(f"{self._factory}: {self._what}: {said}") from problem
