"""Whether a scenario fits in the memory of its GPUs, and remedies if it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.shipped import shipped_json
from dpsim.base.uncertainty import ModelError, PredictionInterval
from dpsim.base.units import DATA, human
from dpsim.hardware import Gpu
from dpsim.scenario import Scenario
from dpsim.workload import (
    STAGE_NAMES,
    STAGES,
    Footprint,
    LeastSplit,
    Model,
    Remedy,
    Setup,
    footprint,
    gpus_to_shard_over,
    largest_batch,
    least_split,
    longest_sequence,
    offloaded_bytes,
    remedies,
)


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory that one of the ``workers`` takes on its GPU; ``held`` are its parts, in bytes.

    ``architecture`` is the GPU's generation.
    ``of_length`` returns the model for sequences of another length; None if the length is fixed.
    """

    gpu: str
    architecture: str
    capacity: float
    model: Model
    setup: Setup
    held: Footprint
    of_length: Callable[[int], Model] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        held, capacity = human(self.held.total, DATA, 3), human(self.capacity, DATA, 3)
        return f"<MemoryUse of {self.model.name}: {held} of {capacity} on each {self.gpu}>"

    def changed(self, **changes: Any) -> MemoryUse:
        """Return the same model on the same GPU, with these fields of the setup changed."""
        setup = replace(self.setup, **changes)
        return replace(self, setup=setup, held=footprint(self.model, setup))

    @property
    def is_partial(self) -> bool:
        """Whether the model states no activations, so that the parts are only a lower bound."""
        return not self.model.activations

    @property
    def fits(self) -> bool:
        """Whether the parts, or those that are known, fit in the GPU's memory."""
        return self.held.fits(self.capacity)

    @property
    def spare(self) -> float:
        """Bytes left over; negative if it does not fit."""
        return self.capacity - self.held.total

    @property
    def interval(self) -> PredictionInterval | None:
        """The interval of the peak in bytes, from published peaks over their predictions.

        None if activations are not known. The few published peaks are of one model with one kind of
        sharding. Other setups get the spread over GPU generations, which is wider than the spread
        over configurations.
        """
        if self.is_partial:
            return None
        table, setup = shipped_json("dpsim.engine", "memory_residuals.json"), self.setup
        stage = f"{setup.stage} ({STAGE_NAMES[setup.stage]})"
        measured = {
            f"of {self.model.name}": self.model.name in table["models"],
            f"on {self.gpu} or its generation": self.architecture in table["architectures"],
            f"in {setup.precision}": setup.precision in table["precisions"],
            f"at sharding stage {stage}": setup.stage in table["stages"],
        }
        missing = tuple(f"no peak {what} was measured" for what in measured if not measured[what])
        basis = f"memory: {table['peaks']} published peaks of {', '.join(table['models'])}, of "
        basis += (
            f"{len(table['architectures'])} generations of GPUs"
            if missing
            else f"{table['configurations']} configurations"
        )
        spread = table["unlike" if missing else "alike"]
        return ModelError(basis, spread, missing, source="memory").around(self.held.total)

    @property
    def warnings(self) -> list[str]:
        """A warning if the verdict may be wrong: the GPU's memory lies inside the interval."""
        found = self.interval
        if found is None or not found.low <= self.capacity < found.high:
            return []
        low, high, capacity = (
            human(size, DATA, 3) for size in (found.low, found.high, self.capacity)
        )
        verdict = "not fit" if self.fits else "fit all the same"
        return [f"may {verdict}: {low} to {high} of {capacity}, by the model's error"]

    @property
    def with_headroom(self) -> MemoryUse:
        """The same with less capacity, as a margin for the model's error."""
        high = self.held.total if self.interval is None else self.interval.high
        return replace(self, capacity=self.capacity * self.held.total / high)

    @property
    def largest_batch(self) -> int:
        """The largest batch of one pass that fits, or 0 if none does."""
        return largest_batch(self.model, self.setup, self.capacity)

    def remedies(self) -> list[Remedy]:
        """Return the changes that make it fit, smallest first; none if it fits."""
        return [] if self.fits else remedies(self.model, self.setup, self.capacity)

    def split(self) -> LeastSplit:
        """Return how many ways the model would have to be split without other changes."""
        return least_split(self.model, self.setup, self.capacity)

    def alternatives(self) -> Iterator[MemoryUse]:
        """Yield the use at each stage, without and with checkpointing, with one learner.

        Yields nothing if activations are not known, because checkpointing changes them.
        """
        if self.is_partial:
            return
        for checkpointing, stage in product((False, True), STAGES):
            yield self.changed(stage=stage, checkpointing=checkpointing, learners=1)

    def most_learners(self, batch: int) -> int:
        """Return how many learners of ``batch`` samples fit on one GPU; 0 if not even one does."""
        alone = self.changed(batch=batch, stage=0, learners=1)
        one, two = alone.held.total, alone.changed(learners=2).held.total
        if one > self.capacity:
            return 0
        # Each further learner takes as much as the second adds to the first.
        return 1 + int((self.capacity - one) / (two - one))

    def advice(self) -> list[str]:
        """Return the smallest remedies if it does not fit, one line each.

        If there are none, or if the weights alone do not fit on one GPU, also return into how many
        parts to split the model.
        """
        if self.fits:
            return []
        remedies = [remedy.text for remedy in self.remedies()] or self._synced_passes()
        lines = remedies or [*self._more_gpus(), *self._shorter_sequences()]
        ways = self.split()
        if not remedies or ways.weights > 1:
            whole = self.changed(stage=0, learners=1).held
            weights = human(whole.weights, DATA, 3)
            alone = f" (its weights alone, {weights}, take {ways.weights} such GPUs)"
            lines.append(
                f"split the model at least {ways.training} ways{alone if ways.weights > 1 else ''}"
            )
        return lines

    def _synced_passes(self) -> list[str]:
        """Return remedies that divide gradients after each pass instead of keeping them whole."""
        synced = self.changed(whole_gradients=False, whole_over_passes=False)
        way = "strategy.aggregation.gradients.sync_each_pass: true"
        if synced.fits:
            return [f"divide the gradients after each pass ({way})"]
        return [
            f"{each.text}, either with a smaller global batch or with {way}, since the gradients "
            "of several passes are kept whole otherwise"
            for each in synced.remedies()
            if "batch" in each.changes
        ]

    def _more_gpus(self) -> list[str]:
        """Return advice on how many GPUs to shard over: a larger cluster, or larger groups."""
        workers = self.setup.workers
        number = gpus_to_shard_over(self.model, self.setup, self.capacity)
        if number is None:
            return []
        if number > workers:
            over = f"with {STAGE_NAMES[STAGES[-1]]} over at least {number:,} such GPUs"
        elif self.setup.shard_group is not None and self.setup.shard_group < number:
            # Groups have equal sizes, so the size divides the number of workers.
            group = next(size for size in range(number, workers + 1) if workers % size == 0)
            over = f"over groups of {group:,} GPUs (shard_group, or sync.group where it is set)"
        else:
            return []
        return [f"shard {over}, with activations checkpointed and 1 sample a pass"]

    def _shorter_sequences(self) -> list[str]:
        """Return advice on a shorter sequence, a last resort because it changes the training."""
        now = self.model.tokens
        if self.of_length is None or now is None:
            return []
        length = longest_sequence(self.of_length, self.setup, self.capacity, now)
        if not length:
            return []
        shards = self.setup.stage < STAGES[-1] and self.setup.workers > 1
        sharded = f"{STAGE_NAMES[-1]}, " if shards else ""
        return [
            f"shorten sequences from {now:,} to at most {length:,} tokens "
            f"(workload.sequence_length), with {sharded}activations checkpointed and 1 sample a "
            "pass"
        ]

    def refusal(self) -> DpsimError:
        """Return the error, with advice, for a scenario that does not fit."""
        held = self.held
        parts = {name: size for name, size in held.parts().items() if size >= held.total / 100}
        rest = held.total - sum(parts.values())
        # Rounding may leave a fraction of a byte.
        parts |= {"rest": rest} if rest >= 1 else {}
        sizes = ", ".join(f"{name} {human(size, DATA, 3)}" for name, size in parts.items())
        return DpsimError(
            f"workload: must fit in the {human(self.capacity, DATA, 3)} of {self.gpu}, but takes "
            f"{human(held.total, DATA, 3)} "
            f"({sizes}); to make it fit: {', or '.join(self.advice())}; run.allow_out_of_memory: "
            "true simulates it all the same"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object ``memory`` of ``dpsim run --json``."""
        held = self.held
        return {
            "gpu": self.gpu,
            "parts_bytes": self.parts(),
            "breakdown": self.breakdown(),
            "total_bytes": held.total,
            "capacity_bytes": self.capacity,
            "fits": None if self.is_partial and self.fits else self.fits,
        }

    def parts(self) -> dict[str, float | None]:
        """Return the bytes of each part by name; activations are None if they are not known."""
        unknown = {"activations": None} if self.is_partial else {}
        return {**self.held.parts(), **unknown}

    def breakdown(self) -> dict[str, float | None]:
        """Return the bytes of the parts, by the names that training tools use."""
        parts = self.parts()
        gathered = parts.pop("buckets")
        return {**parts, "gather_buffers": gathered}

    def report(self) -> dict[str, Any]:
        """Return the object of ``dpsim memory --json``, without the name and the learners."""
        ways = self.split()
        return {
            "model": self.model.name,
            "parameters": self.model.parameters,
            "trained_parameters": self.model.trained,
            "workers": self.setup.workers,
            "batch_per_pass": self.setup.batch,
            "precision": self.setup.precision,
            "optimizer": self.setup.optimizer,
            "stage": self.setup.stage,
            "checkpointing": self.setup.checkpointing,
            "learners_per_gpu": self.setup.learners,
            **self.to_json(),
            "interval_bytes": None if self.interval is None else self.interval.to_json(),
            "warnings": self.warnings,
            "spare_bytes": None if self.is_partial and self.fits else self.spare,
            "largest_batch": None if self.is_partial else self.largest_batch,
            "offloaded_bytes": offloaded_bytes(self.model, self.setup),
            "bytes_per_parameter": self.held.model_state / self.model.parameters,
            "stages": [_row(each) for each in self.alternatives()],
            "remedies": [
                {"text": remedy.text, "changes": remedy.changes} for remedy in self.remedies()
            ],
            "split_ways": {
                "weights_alone": ways.weights,
                "training": None if self.is_partial else ways.training,
            },
            "advice": self.advice(),
        }


def _row(use: MemoryUse) -> dict[str, Any]:
    held = use.held
    return {
        "stage": use.setup.stage,
        "name": STAGE_NAMES[use.setup.stage],
        "checkpointing": use.setup.checkpointing,
        "model_state_bytes": held.model_state,
        "activations_bytes": held.activations,
        "total_bytes": held.total,
        "fits": use.fits,
        "spare_bytes": use.spare,
        "largest_batch": use.largest_batch,
    }


def check_fits(scenario: Scenario, model: Model | None = None) -> None:
    """Raise DpsimError, with advice, if ``scenario`` takes more memory than its GPUs have."""
    use = memory_use(scenario, model)
    if not use.held.fits(use.capacity):
        raise use.refusal()


def memory_use(scenario: Scenario, model: Model | None = None) -> MemoryUse:
    """Return the memory that ``scenario`` takes on the kind of GPU with the least memory."""
    shard_group, outer_bytes = _divided_state(scenario)
    gpu, workers, cell = smallest_gpu(scenario), scenario.cluster.ranks, scenario.cell
    if model is None:
        model = scenario.build_model()
    workload, recompute = scenario.workload, scenario.workload.recompute
    # Full checkpointing leaves the segments to the framework: the ones that take the least memory,
    # about a block each.
    segments = None if workload.checkpoints_all else recompute
    of_length = partial(_model_for_length, scenario) if workload.has_length else None
    aggregation, passes = scenario.strategy.aggregation, workload.gradient_accumulation
    stage = aggregation.sharding_stage or 0
    setup = Setup(
        batch=workload.batch_per_gpu,
        precision=workload.precision,
        optimizer=workload.optimizer,
        stage=stage,
        workers=workers,
        checkpointing=recompute is not None,
        recompute=segments,
        learners=workload.learners_per_gpu,
        weight_bytes=getattr(aggregation, "weight_bytes", None),
        outer_bytes=outer_bytes,
        units_ahead=aggregation.units_ahead,
        views_buckets=aggregation.views_buckets,
        shard_group=shard_group,
        whole_gradients=passes > 1 and not aggregation.reduces_each_pass,
        # If nothing is sharded yet, a remedy shards as `sharded` does by default.
        whole_over_passes=stage == 0 or not aggregation.reduces_each_pass,
        cell=cell,
        offloaded=aggregation.offloading.parts,
        software=workload.full_software,
    )
    held = footprint(model, setup)
    return MemoryUse(gpu.name, gpu.architecture, gpu.memory.value, model, setup, held, of_length)


def _divided_state(scenario: Scenario) -> tuple[int | None, float]:
    """Return how many workers divide state, and a worker's outer state in bytes per parameter.

    None means all workers. It is also the number over which a remedy would shard.
    """
    strategy, outer = scenario.strategy, scenario.strategy.sync.outer_step
    stage = strategy.aggregation.sharding_stage
    if not stage and not strategy.sync.has_groups and outer is None:
        return None, 0.0
    peers = strategy.peers(scenario.cluster.mesh)
    # With groups, a remedy shards within them too.
    size = strategy.aggregation.shard_size(peers) if stage else peers.ranks
    # Each worker of a group keeps its part of the outer optimiser's state.
    return size, 0.0 if outer is None else outer.state_bytes / peers.ranks


def _model_for_length(scenario: Scenario, tokens: int) -> Model:
    """Return the model of ``scenario`` for sequences of ``tokens`` tokens."""
    workload = scenario.workload.model_copy(update={"sequence_length": tokens})
    return scenario.model_copy(update={"workload": workload}).build_model()


def smallest_gpu(scenario: Scenario) -> Gpu:
    """Return the kind of GPU of the cluster with the least memory."""
    # All workers hold the same amount, so the smallest memory decides.
    kinds = [part.accelerator for part in scenario.cluster.parts]
    return min(kinds, key=lambda gpu: gpu.memory.value)


def remedy_values(scenario: Scenario, remedy: Remedy) -> dict[str, Any]:
    """Return the fields of ``scenario`` that ``remedy`` changes, by path, with their new values.

    A smaller batch per pass is the largest that fits and leaves the batch of a step unchanged.
    """
    workload, values = scenario.workload, dict[str, Any]()
    changes = remedy.changes
    if "stage" in changes:
        values["strategy.aggregation"] = {"kind": "sharded", "stage": changes["stage"]}
    if "checkpointing" in changes:
        values["workload.checkpoint"] = "full"
    if "batch" in changes:
        whole = workload.batch_per_gpu * workload.gradient_accumulation
        # The batch of a step does not change, so passes must divide it.
        passes = -(-whole // int(changes["batch"]))
        while whole % passes:
            passes += 1
        values["workload.batch_per_gpu"] = whole // passes
        values["workload.gradient_accumulation"] = passes
    if "learners" in changes:
        values["workload.learners_per_gpu"] = changes["learners"]
    return values
