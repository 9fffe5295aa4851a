"""What a scenario's workers train, on made-up data: model, precision, passes, optimiser, input."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpsim.base.errors import DpsimError
from dpsim.engine import Job
from dpsim.workload import WorkloadConfig
from validate.microbench import (
    OPTIMIZER_CLASSES,
    Words,
    casting,
    executed,
    images,
    laid_out,
    optimizer_words,
)
from validate.ranks.device import DeviceFace
from validate.training import Task, blocks_of
from validate.twins import Subject, draw


class ScenarioTask(Task):
    """The workload of ``job`` as one rank trains it: ``subject`` on ``face``'s device.

    ``words`` are those of the software. A model that is divided has its own weights' layout, and no
    CUDA graphs (`omitted`).
    """

    keeps_weights = False

    def __init__(
        self, job: Job, subject: Subject, face: DeviceFace, rank: int, words: Words
    ) -> None:
        workload = job.scenario.workload
        self.passes = workload.gradient_accumulation
        self._workload = workload
        self._subject = subject
        self._words = words
        self._face = face
        self._samples = workload.batch_per_gpu * workload.learners_per_gpu * job.workers
        self._inputs = images(subject.batch(workload.batch_per_gpu, face.place), words)
        # It is made when the first loss is: only then is it known what the model puts out.
        self._labels: Tensor | None = None
        self._loading = None if job.input is None else job.input.of(rank).start()
        self._began = 0.0

    def __len__(self) -> int:
        """Samples of one step on all workers."""
        return self._samples

    def model(self, seed: int) -> nn.Module:
        """The subject's, compiled and with activations computed again as the scenario says."""
        module: nn.Module = laid_out(self._subject.module(self._face.place, seed), self._words)
        checkpoint(module, self._workload)
        self._execute([module], graphs=self._face.on_gpu)
        return module

    def outline(self, seed: int) -> nn.Module:
        """The same without weights; compiled block by block, since they are gathered in between."""
        module: nn.Module = self._subject.outline(self._face.place, seed)
        checkpoint(module, self._workload)
        self._execute(blocks_of(module), graphs=False)
        return module

    def fill(self, part: nn.Module) -> None:
        """By each module's own rule."""
        draw(part, self._face.place)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """The same made-up samples in every step; what they are costs nothing."""
        return self._inputs, self._inputs

    def loss(self, forward: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over what the model puts out, or its mean square where that is no score."""
        if self._face.on_gpu and self._words.execution in ("graph", "cuda-graph"):
            # What a graph put out in the last pass is not read any more.
            torch.compiler.cudagraph_mark_step_begin()
        with casting(self._workload.precision, self._face):
            return self._criterion(forward(inputs))

    @property
    def optimiser_class(self) -> Any:
        """The scenario's optimiser."""
        return OPTIMIZER_CLASSES[self._workload.optimizer][0]

    def optimiser_settings(self) -> dict[str, Any]:
        """With a rate that leaves weights where they are."""
        name = self._workload.optimizer
        return {**OPTIMIZER_CLASSES[name][1], **optimizer_words(name, self._words)}

    @property
    def loads(self) -> bool:
        """Whether samples come through a pipeline."""
        return self._loading is not None

    def await_input(self) -> None:
        """Wait until the scenario's pipeline, which runs in real time, has the step's samples."""
        if self._loading is None:
            return
        now = time.perf_counter()
        # The pipeline counts from when it is asked first.
        self._began = self._began or now
        ready = float(self._loading.take(np.array([now - self._began]))[0])
        time.sleep(max(self._began + ready - now, 0.0))

    def _execute(self, parts: Sequence[nn.Module], *, graphs: bool) -> None:
        for part in parts:
            # Not by its own compile(), which passes over a model that is nothing but torch's parts.
            part.forward = executed(part.forward, self._words, graphs=graphs)

    def _criterion(self, output: Any) -> Tensor:
        tensor = output if isinstance(output, torch.Tensor) else next(iter(output))
        scores = tensor.flatten(0, -2)
        if scores.shape[-1] < 2:
            return tensor.float().square().mean()
        if self._labels is None:
            shape = (len(scores),)
            self._labels = torch.randint(scores.shape[-1], shape, device=scores.device)
        return functional.cross_entropy(scores, self._labels)


def checkpoint(module: nn.Module, workload: WorkloadConfig) -> None:
    """Blocks whose activations are computed again in backward, as the scenario spreads them.

    Of segments of so many layers, runs of blocks that hold about as many. Raises DpsimError for a
    model without such blocks.
    """
    recompute = workload.recompute
    if recompute is None:
        return
    blocks = blocks_of(module)
    if not blocks:
        raise DpsimError(
            "workload.checkpoint: must be none for a model without a sequence of blocks, but got "
            f"{workload.checkpoint if workload.checkpointing is None else workload.checkpointing!r}"
        )
    if recompute.layers is not None:
        run = max(round(recompute.layers * len(blocks) / len(workload.build().layers)), 1)
        _in_segments(module, blocks[::run])
        return
    settings: dict[str, Any] = {"context_fn": _kept_products()} if recompute.selective else {}
    for index, block in enumerate(blocks):
        # Spread evenly: a block is taken where the running sum of shares passes a whole number.
        if int((index + 1) * recompute.share) > int(index * recompute.share):
            block.forward = _computed_again(block.forward, **settings)


def _in_segments(module: nn.Module, firsts: Sequence[nn.Module]) -> None:
    """The sequence of blocks keeps what enters each of ``firsts``, and computes the rest again.

    Blocks are called as modules, so that who divides them gathers each before its turn.
    """
    found = [part for part in module.modules() if firsts[0] in part.children()]
    sequence = found[0]
    if not isinstance(sequence, nn.Sequential):
        raise DpsimError(
            "workload.checkpointing: must be none or full for a model whose blocks are not in a "
            "Sequential, but got segments of several layers"
        )
    segments: list[list[nn.Module]] = []
    for child in sequence:
        if not segments or child in firsts:
            segments.append([])
        segments[-1].append(child)
    passes = [_computed_again(partial(_through, segment)) for segment in segments]
    sequence.forward = partial(_through, passes)


def _through(parts: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    for part in parts:
        x = part(x)
    return x


def _computed_again(forward: Callable[[Any], Any], **settings: Any) -> Callable[[Any], Any]:
    from torch.utils import checkpoint

    def kept_at_its_start(x: Any) -> Any:
        return checkpoint.checkpoint(forward, x, use_reentrant=False, **settings)

    return kept_at_its_start


def _kept_products() -> Callable[[], Any]:
    """What torch asks which results stay."""
    try:
        from torch.utils.checkpoint import create_selective_checkpoint_contexts
    except ImportError:  # before torch 2.5
        raise DpsimError(
            f"workload.checkpoint: must be none, full, every or fraction with torch "
            f"{torch.__version__}, but got 'selective'"
        ) from None
    return lambda: create_selective_checkpoint_contexts(_KeepProducts())


class _KeepProducts:
    """Torchtitan's choice: products and fused attention stay, but for every second product."""

    def __init__(self) -> None:
        self._products = {False: 0, True: 0}

    def __call__(self, context: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
        """What torch asks of each operator, in the forward pass and again in backward."""
        from torch.utils.checkpoint import CheckpointPolicy

        name = str(operator)
        if "attention" in name:
            return CheckpointPolicy.MUST_SAVE
        if not any(product in name for product in ("aten.mm", "aten.addmm", "aten.bmm")):
            return CheckpointPolicy.PREFER_RECOMPUTE
        # Counted apart: the second time must choose as the forward pass has chosen.
        again = bool(context.is_recompute)
        self._products[again] += 1
        stays = self._products[again] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if stays else CheckpointPolicy.PREFER_RECOMPUTE
