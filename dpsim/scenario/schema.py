"""The scenario: one experiment, as described by its YAML file.

The model of each kind is defined in the module of that kind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    NonNegativeInt,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dpsim.base.config import Config, first_problem
from dpsim.base.errors import DpsimError
from dpsim.base.kinds import OnDemand
from dpsim.disturbance import DisturbanceConfig, JitterConfig
from dpsim.hardware import CalibrationProfile, KnownRun, MeasuredModel, ProfileRef, RankSpread
from dpsim.scenario.cost import CostConfig
from dpsim.scenario.replay import ReplayConfig
from dpsim.scenario.scaled_compute import (
    ComputeScale,
    MeasuredCell,
    MeasuredStep,
    ScaledCompute,
    fullest,
)
from dpsim.strategy import StrategyConfig
from dpsim.topology import ClusterConfig, Condition
from dpsim.workload import Model, WorkloadConfig

if TYPE_CHECKING:
    from dpsim.scenario.sweep import SweepConfig
    from dpsim.topology import TestbedConfig
    from dpsim.workload import MeasuredTimes
else:
    SweepConfig = Annotated[object, OnDemand("dpsim.scenario.sweep:SweepConfig")]
    TestbedConfig = Annotated[object, OnDemand("dpsim.topology:TestbedConfig")]


class RunConfig(Config):
    """How the scenario is simulated."""

    steps: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=50, description="Measured steps, after the warm-up."
    )
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=5, description="Warm-up steps, which are not counted."
    )
    seed: NonNegativeInt = Field(default=0, description="Seed of every random stream.")
    network_model: Literal["auto", "rounds", "bundle", "flows"] = Field(
        default="auto",
        description=(
            "Model of collectives. rounds: vectors over ranks, round by round; flows: a fluid "
            "flow for each message; auto: the cheapest model that can represent the scenario. For "
            "collectives that share links: flows plays each message, bundle plays one flow per "
            "collective, and auto takes flows if there is other traffic or links change (not for "
            "a library's collectives), otherwise bundle."
        ),
    )
    engine: Literal["auto", "vector", "events"] = Field(
        default="auto",
        description=(
            "Engine for synchronous workers. vector: one vector of all clocks, each collective "
            "alone on its links; events: one process per worker, all collectives on a shared "
            "network; auto: vector if it is exact, otherwise events if they take less than a "
            "minute."
        ),
    )
    allow_out_of_memory: bool = Field(
        default=False, description="Simulate even if the model does not fit in GPU memory."
    )


_Calibration = Literal["catalogue"] | MeasuredStep | ComputeScale | MeasuredCell | ProfileRef


def _cluster_or_testbed(schema: dict[str, Any]) -> None:
    """Require the cluster or the testbed in the JSON Schema."""
    schema["required"].remove("cluster")
    schema["anyOf"] = [{"required": ["cluster"]}, {"required": ["testbed"]}]


class Scenario(Config):
    """One experiment.

    With ``testbed`` its cluster is the testbed's, and ``cluster`` is left out (or equal).
    """

    model_config = ConfigDict(json_schema_extra=_cluster_or_testbed)

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Name of the experiment."
    )
    cluster: ClusterConfig = Field(
        description="The machines and their network; leave it out if testbed is given."
    )
    testbed: TestbedConfig | None = Field(
        default=None,
        description=(
            "Real processes on this machine with links of limited rate, instead of a cluster."
        ),
    )
    workload: WorkloadConfig = Field(
        description="The model, batch and software that each worker runs."
    )
    strategy: StrategyConfig = Field(
        default=StrategyConfig(),
        description="How gradients are aggregated and when workers synchronise.",
    )
    disturbance: DisturbanceConfig = Field(
        default=DisturbanceConfig(),
        description=(
            "Causes of variation between steps: jitter, slow workers, failures, other traffic."
        ),
    )
    run: RunConfig = Field(
        default=RunConfig(), description="Number of steps, seed and simulation engine."
    )
    replay: ReplayConfig = Field(
        default=ReplayConfig(),
        description="The small model that dpsim converge trains for real in the simulated time.",
    )
    calibration: _Calibration = Field(
        default="catalogue",
        description=(
            "Source of times. catalogue: datasheet figures. A measured step, a factor, or the "
            "measured step of a cell of several GPUs scales the compute times. A profile has "
            "fitted transport parameters, layer times or both (dpsim validate calibrate): a JSON "
            "file relative to the scenario, or the name of one shipped with dpsim (testbed)."
        ),
    )
    cost: CostConfig = Field(default=CostConfig(), description="Price and power of GPU time.")
    sweep: SweepConfig | None = Field(
        default=None, description="Fields to vary, for many scenarios in one file (dpsim sweep)."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _as_a_whole(cls, data: Any, fields: ModelWrapValidatorHandler[Scenario]) -> Scenario:
        """Take the cluster from the testbed before validation, and check cells afterwards."""
        lacks_cluster = isinstance(data, dict) and data.get("cluster") is None
        if lacks_cluster and data.get("testbed") is not None:
            data = {**data, "cluster": _cluster_of(data["testbed"])}
        scenario = fields(data)
        # Only calibrations measured on cells have a cell size.
        if getattr(scenario.calibration, "cell", 1) > 1:
            scenario._check_cells()
        return scenario

    @field_validator("testbed")
    @classmethod
    def _agrees(cls, testbed: TestbedConfig | None, info: ValidationInfo) -> TestbedConfig | None:
        cluster = info.data.get("cluster")
        if testbed is not None and cluster is not None and cluster != testbed.cluster():
            raise ValueError(
                "testbed must not be given with cluster, which follows from it, but got another "
                "cluster beside it"
            )
        return testbed

    @field_validator("workload")
    @classmethod
    def _resolve_batch(cls, workload: WorkloadConfig, info: ValidationInfo) -> WorkloadConfig:
        cluster = info.data.get("cluster")
        # Fields are validated in order, so the cluster is set unless it was refused.
        if workload.global_batch is None or cluster is None:
            return workload
        return workload.resolved(cluster.ranks)

    @field_validator("workload")
    @classmethod
    def _curve_of_one_gpu(cls, workload: WorkloadConfig, info: ValidationInfo) -> WorkloadConfig:
        cluster = info.data.get("cluster")
        if not workload.utilisation or cluster is None:
            return workload
        kinds = sorted({part.accelerator.name for part in cluster.parts})
        if len(kinds) > 1:
            raise ValueError(
                "utilisation must be left out on several kinds of GPU, since it is measured on "
                f"one, but got {', '.join(kinds)}"
            )
        return workload

    @field_validator("calibration")
    @classmethod
    def _of_a_transport(cls, calibration: Any) -> Any:
        """Refuse profiles of unknown kinds."""
        if isinstance(calibration, CalibrationProfile):
            calibration.transport()
            for spread in calibration.spreads:
                _jitter_of(spread)
        return calibration

    def _check_cells(self) -> None:
        """Check that cells exchange by all-reduces, and divide the GPUs."""
        cell, strategy = self.cell, self.strategy
        if self.cluster.ranks % cell:
            raise ValueError(
                f"calibration.cell must divide the {self.cluster.ranks} GPUs, but got {cell}"
            )
        if strategy.aggregation.all_reduce is None or strategy.sync.outer_step is not None:
            raise ValueError(
                "calibration.cell must be used with all-reduces of all cells, but got aggregation "
                f"{strategy.aggregation.kind} and sync {strategy.sync.kind}"
            )
        if self.workload.learners_per_gpu > 1:
            raise ValueError(
                "workload.learners_per_gpu must be 1 in cells of several GPUs, but got "
                f"{self.workload.learners_per_gpu}"
            )

    @property
    def cell(self) -> int:
        """GPUs that split a model among them: 1 except for measured cells."""
        # Only calibrations measured on cells have a cell size.
        cell: int = getattr(self.scaling, "cell", 1)
        return cell

    @property
    def scaling(self) -> ScaledCompute | None:
        """The scaling of compute times, if the calibration has one."""
        calibration, profile = self.calibration, self.profile
        if profile is not None and profile.compute_scale is not None:
            return ComputeScale(
                compute_scale=profile.compute_scale, source=profile.name, known=profile.known
            )
        return calibration if isinstance(calibration, ScaledCompute) else None

    @property
    def condition(self) -> Condition:
        """The condition of the cluster: as given, or from the tier of the software.

        A measured profile already includes its condition. The effect of ordinary clusters on steps
        is known only for all-reduces and sharding.
        """
        profile = self.profile
        measured = profile is not None and bool(
            profile.compute or profile.network or profile.measured or profile.parameters
        )
        if self.cluster.condition is None:
            is_known = self.strategy.aggregation.kind in ("allreduce", "sharded")
            is_research = self.workload.software == "reference" and is_known and not measured
            return "ordinary" if is_research and self.testbed is None else "tuned"
        return self.cluster.condition

    @property
    def place(self) -> KnownRun:
        """The nodes, GPUs per node and batch, which determine the nearest known runs."""
        return KnownRun(
            nodes=sum(part.nodes for part in self.cluster.parts),
            gpus_per_node=fullest(self.cluster),
            batch=self.workload.batch_per_gpu,
        )

    @property
    def known_runs(self) -> tuple[KnownRun, ...]:
        """The measured runs that the calibration was fitted to, if it names them."""
        profile, scaling = self.profile, self.scaling
        if profile is not None and profile.step is not None:
            return profile.known
        batch = self.workload.batch_per_gpu
        return () if scaling is None else scaling.measured_runs(self.cluster, batch)

    @property
    def fitted_to(self) -> str | None:
        """The source of the measured step that compute times are fitted to; None without one."""
        return None if self.scaling is None else self.scaling.fitted_to

    @property
    def profile(self) -> CalibrationProfile | None:
        """The profile of measured messages, collectives, layers or ranks, if given."""
        calibration = self.calibration
        return calibration if isinstance(calibration, CalibrationProfile) else None

    @property
    def global_batch(self) -> int:
        """Samples of a step on all workers."""
        return self.cluster.ranks * self.workload.samples_per_gpu

    def build_model(self) -> Model:
        """Return the model that workers train, with the calibration's layer times for it."""
        profile = self.profile
        # All workers train one model, so a kind of GPU without such a kernel decides for all.
        flash = all(part.accelerator.flash_attention for part in self.cluster.parts)
        model = self.workload.build(flash=flash)
        if profile is None:
            return model
        # Identify the profile's model by its layers, since names of models are spelt in many ways.
        names = [layer.name for layer in model.layers]
        words = self.workload.full_software
        software = {"execution": words.execution, "memory_format": words.memory_format}
        layer_times = profile.layer_times(names, self.workload.precision, model.tokens, software)
        if layer_times is None:
            return model
        if model.trained < model.parameters:
            raise DpsimError(
                "workload.trainable: must be all if the calibration has measured layer times, "
                "which are from a step that trains all"
            )
        # Layers were measured on an otherwise idle node; ranks that compute at once slow each other
        # down.
        pace = 1.0 if self._spread is None else self._spread.pace
        wrapper = self.strategy.wrapper if self.cluster.ranks > 1 else None
        return replace(model, measured=_times(layer_times, self.workload, pace, wrapper))

    @property
    def measured_jitter(self) -> JitterConfig | None:
        """The measured spread between concurrent ranks, if the calibration has it."""
        return None if self._spread is None else _jitter_of(self._spread)

    @property
    def _spread(self) -> RankSpread | None:
        return None if self.profile is None else self.profile.spread_of(self.cluster.ranks)


def _cluster_of(testbed: Any) -> ClusterConfig:
    """Return the testbed's cluster; any cluster if it is invalid, which is reported elsewhere."""
    from dpsim.topology import TestbedConfig

    try:
        config = TestbedConfig.model_validate(testbed)
    except ValidationError:
        config = TestbedConfig()
    return config.cluster()


def _jitter_of(spread: RankSpread) -> JitterConfig | None:
    """Return a spread's jitter as a scenario's. Raises ValueError if it is invalid."""
    try:
        return DisturbanceConfig.model_validate({"jitter": spread.jitter}).jitter
    except ValidationError as error:
        name, rule, given = first_problem(error)
        raise ValueError(f"spreads.{name}: {rule}, but got {given!r}") from None


def _times(
    found: MeasuredModel, workload: WorkloadConfig, pace: float, wrapper: str | None
) -> MeasuredTimes:
    """Return a profile's layer times, and its update's if it has this optimiser by these kernels.

    All times are multiplied by ``pace``. The ``wrapper``'s extra time is divided equally over the
    layers.
    """
    kernels = workload.full_software.optimizer_kernels
    same = found.software.get("optimizer_kernels", kernels) == kernels
    update = found.optimizers.get(workload.optimizer) if same else None
    from dpsim.workload import MeasuredTimes

    extra = found.wrapped.get(wrapper or "")
    longer = 0.0 if extra is None else extra.value / (2 * len(found.layers))
    forward, backward = (
        tuple(tuple(seconds + longer for seconds in row) for row in rows)
        for rows in (found.forward_s, found.backward_s)
    )
    measured = MeasuredTimes(
        batch_sizes=found.batch_sizes,
        forward_s=forward,
        backward_s=backward,
        optimizer_s=() if update is None else (update.value,) * len(found.batch_sizes),
        device=found.device,
    )
    return measured.scaled(pace)
