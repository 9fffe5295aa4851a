"""Training of a scenario's workers on random data: model, precision, passes, optimiser, input."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn import functional

from dpsim.base.errors import DpsimError
from dpsim.engine import Job
from dpsim.workload import WorkloadConfig
from validate.microbench.precision import casting
from validate.microbench.software import (
    OPTIMIZER_CLASSES,
    Words,
    apply_execution,
    images,
    laid_out,
    optimizer_words,
)
from validate.ranks.device import DeviceFace
from validate.training import Task, blocks_of
from validate.twins import Subject, draw


class ScenarioTask(Task):
    """The workload of ``job`` as one rank trains it: ``subject`` on ``face``'s device.

    ``words`` are the software settings. A sharded model has its own weights' layout, and no CUDA
    graphs (`omitted_words`).
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
        # Created with the first loss: only then is the shape of the output known.
        self._labels: Tensor | None = None
        self._sharing = _sharing(job, rank) if face.on_gpu else None
        self._loading = None if job.input is None else job.input.of(rank).start()
        self._began = 0.0

    def __len__(self) -> int:
        return self._samples

    def model(self, seed: int) -> nn.Module:
        """Return the subject's model, compiled and with recomputation as in the scenario."""
        module = self._with_shared_norms(self._subject.module(self._face.place, seed))
        module = laid_out(module, self._words)
        checkpoint(module, self._workload)
        self._execute([module], graphs=self._face.on_gpu)
        return module

    def outline(self, seed: int) -> nn.Module:
        """Return the model without weights, compiled by block: gathers come in between."""
        module = self._with_shared_norms(self._subject.outline(self._face.place, seed))
        checkpoint(module, self._workload)
        self._execute(blocks_of(module), graphs=False)
        return module

    def _with_shared_norms(self, module: nn.Module) -> nn.Module:
        """Return ``module`` with the scenario's groups of batch norm, which torch has on GPUs."""
        if self._sharing is None:
            return module
        shared: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module, self._sharing)
        return shared

    def fill(self, part: nn.Module) -> None:
        """Draw the weights of ``part`` by each module's own rule."""
        draw(part, self._face.place)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same random samples in every step; their content does not affect the time."""
        return self._inputs, self._inputs

    def loss(self, forward: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy of the output, or its mean square if it is no score."""
        if self._face.on_gpu and self._words.execution in ("graph", "cuda-graph"):
            # The output of a graph in the last pass is no longer needed.
            torch.compiler.cudagraph_mark_step_begin()
        with casting(self._workload.precision, self._face):
            return self._criterion(forward(inputs))

    @property
    def optimiser_class(self) -> Any:
        return OPTIMIZER_CLASSES[self._workload.optimizer][0]

    def optimiser_settings(self) -> dict[str, Any]:
        """Return the settings with a rate that leaves weights unchanged."""
        name = self._workload.optimizer
        return {**OPTIMIZER_CLASSES[name][1], **optimizer_words(name, self._words)}

    @property
    def has_input_pipeline(self) -> bool:
        return self._loading is not None

    def await_input(self) -> None:
        """Wait until the scenario's pipeline, which runs in real time, has the step's samples."""
        if self._loading is None:
            return
        now = time.perf_counter()
        # The pipeline's time starts with the first request.
        self._began = self._began or now
        ready = float(self._loading.take(np.array([now - self._began]))[0])
        time.sleep(max(self._began + ready - now, 0.0))

    def _execute(self, parts: Sequence[nn.Module], *, graphs: bool) -> None:
        for part in parts:
            # Not by its own compile(), which ignores a model made only of torch's own modules.
            part.forward = apply_execution(part.forward, self._words, graphs=graphs)

    def _criterion(self, output: Any) -> Tensor:
        tensor = output if isinstance(output, torch.Tensor) else next(iter(output))
        scores = tensor.flatten(0, -2)
        if scores.shape[-1] < 2:
            return tensor.float().square().mean()
        if self._labels is None:
            shape = (len(scores),)
            self._labels = torch.randint(scores.shape[-1], shape, device=scores.device)
        return functional.cross_entropy(scores, self._labels)


def _sharing(job: Job, rank: int) -> Any:
    """Return the group in which ``rank`` shares statistics of batch norm, None if it is in none.

    Every rank must create every group, so servers call this too; their models never run.
    """
    size = job.scenario.workload.sync_batch_norm
    if size == 1:
        return None
    starts = range(0, job.workers, size)
    groups = [dist.new_group(range(start, start + size)) for start in starts]
    return groups[rank // size] if rank < job.workers else None


def checkpoint(module: nn.Module, workload: WorkloadConfig) -> None:
    """Recompute blocks' activations in backward, spread as in the scenario.

    For segments of several layers, runs of blocks with about as many. Raises DpsimError for a model
    without such blocks.
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
        # To spread blocks evenly, choose those where the sum of shares passes a whole number.
        if int((index + 1) * recompute.share) > int(index * recompute.share):
            block.forward = _computed_again(block.forward, **settings)


def _in_segments(module: nn.Module, firsts: Sequence[nn.Module]) -> None:
    """Keep only the inputs of each of ``firsts`` in the sequence of blocks, and recompute the rest.

    Blocks are called as modules, so that a sharding library gathers each before its turn.
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
    """Return the context function by which torch decides which results to keep."""
    try:
        from torch.utils.checkpoint import create_selective_checkpoint_contexts
    except ImportError:  # before torch 2.5
        raise DpsimError(
            f"workload.checkpoint: must be none, full, every or fraction with torch "
            f"{torch.__version__}, but got 'selective'"
        ) from None
    return lambda: create_selective_checkpoint_contexts(_KeepProducts())


class _KeepProducts:
    """Torchtitan's choice: keep fused attention and every other product, recompute the rest."""

    def __init__(self) -> None:
        self._products = {False: 0, True: 0}

    def __call__(self, context: Any, operator: Any, *args: Any, **kwargs: Any) -> Any:
        """Decide for each operator, in the forward pass and again in backward; called by torch."""
        from torch.utils.checkpoint import CheckpointPolicy

        name = str(operator)
        if "attention" in name:
            return CheckpointPolicy.MUST_SAVE
        if not any(product in name for product in ("aten.mm", "aten.addmm", "aten.bmm")):
            return CheckpointPolicy.PREFER_RECOMPUTE
        # Count forward and recomputation separately, since both must choose the same products.
        again = bool(context.is_recompute)
        self._products[again] += 1
        stays = self._products[again] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if stays else CheckpointPolicy.PREFER_RECOMPUTE
