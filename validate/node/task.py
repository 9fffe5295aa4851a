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
from validate.microbench import OPTIMIZER_CLASSES, casting
from validate.ranks.device import DeviceFace
from validate.ranks.processes import first_line
from validate.training import Task, blocks_of
from validate.twins import Subject


class ScenarioTask(Task):
    """The workload of ``job`` as one rank trains it: ``subject`` on ``face``'s device."""

    keeps_weights = False

    def __init__(self, job: Job, subject: Subject, face: DeviceFace, rank: int) -> None:
        workload = job.scenario.workload
        self.passes = workload.gradient_accumulation
        self._workload = workload
        self._subject = subject
        self._face = face
        self._samples = workload.batch_per_gpu * workload.learners_per_gpu * job.workers
        self._inputs = subject.batch(workload.batch_per_gpu, face.place)
        # It is made when the first loss is: only then is it known what the model puts out.
        self._labels: Tensor | None = None
        self._loading = None if job.input is None else job.input.of(rank).start()
        self._began = 0.0

    def __len__(self) -> int:
        """Samples of one step on all workers."""
        return self._samples

    def model(self, seed: int) -> nn.Module:
        """The subject's, compiled and with activations computed again as the scenario says."""
        module = self._subject.module(self._face.place, seed)
        _checkpoint(module, self._workload)
        if self._workload.execution != "eager":
            # Not by its own compile(), which passes over a model that is nothing but torch's parts.
            module.forward = torch.compile(module.forward)
        return module

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """The same made-up samples in every step; what they are costs nothing."""
        return self._inputs, self._inputs

    def loss(self, forward: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over what the model puts out, or its mean square where that is no score."""
        with casting(self._workload.precision, self._face):
            return self._criterion(forward(inputs))

    @property
    def optimiser_class(self) -> Any:
        """The scenario's optimiser."""
        return OPTIMIZER_CLASSES[self._workload.optimizer][0]

    def optimiser_settings(self) -> dict[str, Any]:
        """With a rate that leaves weights where they are."""
        return dict(OPTIMIZER_CLASSES[self._workload.optimizer][1])

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

    def _criterion(self, output: Any) -> Tensor:
        tensor = output if isinstance(output, torch.Tensor) else next(iter(output))
        scores = tensor.flatten(0, -2)
        if scores.shape[-1] < 2:
            return tensor.float().square().mean()
        if self._labels is None:
            shape = (len(scores),)
            self._labels = torch.randint(scores.shape[-1], shape, device=scores.device)
        return functional.cross_entropy(scores, self._labels)


def _checkpoint(module: nn.Module, workload: WorkloadConfig) -> None:
    """Blocks whose activations are computed again in backward, as the scenario spreads them.

    Of segments of so many layers, runs of blocks that hold about as many.
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
        for first in range(0, len(blocks), run):
            _compute_again(blocks[first : first + run], selective=False)
        return
    for index, block in enumerate(blocks):
        # Spread evenly: a block is taken where the running sum of shares passes a whole number.
        if int((index + 1) * recompute.share) > int(index * recompute.share):
            _compute_again([block], selective=recompute.selective)


def _compute_again(blocks: Sequence[nn.Module], *, selective: bool) -> None:
    """The first of ``blocks`` does the work of all, and is computed again; the others do nothing.

    They stay where they are, so that their parameters keep their names.
    """
    from torch.utils.checkpoint import checkpoint

    forwards = [block.forward for block in blocks]

    def all_of_them(x: Tensor) -> Tensor:
        for forward in forwards:
            x = forward(x)
        return x

    settings: dict[str, Any] = {"use_reentrant": False}
    if selective:
        settings["context_fn"] = _kept_products()
    first, *others = blocks
    first.forward = partial(checkpoint, all_of_them, **settings)
    for block in others:
        block.forward = lambda x: x


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


def compiles(task: Task) -> str:
    """Why the task's model cannot be compiled here, "" where it can."""
    try:
        inputs, labels = task.batch(torch.zeros(0))
        task.loss(task.model(0), inputs, labels)
    except Exception as error:
        return first_line(error)
    return ""
