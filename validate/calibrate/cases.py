"""Cases to measure on a testbed: one algorithm of one collective operation at one size.

A case can also be predicted, over a transport.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveInt

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, human
from dpsim.engine import reduction_cost
from dpsim.hardware import Transport
from dpsim.network import transport_model
from dpsim.topology import Cluster, TestbedConfig, build_cluster, cluster_over_transport, in_bits
from validate.records import RunRecord

LIBRARY = "gloo"


class CollectiveCase(Config):
    """One collective operation by one algorithm, with one size, on one testbed.

    ``algorithm`` is dpsim's name of a schedule, or ``gloo``, the library's own; ``bytes`` are those
    of a vector.
    """

    testbed: TestbedConfig = Field(description="The hosts, one rank each, and their links.")
    operation: str = Field(default="all-reduce", description="The collective operation.")
    algorithm: str = Field(description="Name of a schedule, or gloo.")
    bytes: NonNegativeInt = Field(description="Bytes of one rank's vector of float32 elements.")
    repetitions: PositiveInt = Field(
        default=9, description="Measured repetitions, after the warm-up."
    )
    warmup: NonNegativeInt = Field(default=2, description="Warm-up repetitions.")

    @property
    def setting(self) -> str:
        """All but the algorithm, in words."""
        return f"{testbed_name(self.testbed)}, {self.operation}, {human(self.bytes, DATA)}"

    @property
    def name(self) -> str:
        """The name in reports."""
        return f"{self.setting}, {self.algorithm}"

    def record(self, measured_s: list[float], **fields: Any) -> RunRecord:
        """Return the record of its measured times."""
        case = self.model_dump(mode="json", exclude_defaults=True)
        return RunRecord(
            kind="collective",
            name=self.name,
            setting=self.setting,
            case=case,
            measured_s=tuple(measured_s),
            **fields,
        )


def case_of(record: RunRecord) -> CollectiveCase:
    """Return the case that a record of a collective was made of."""
    return CollectiveCase.model_validate(record.case)


def testbed_name(testbed: TestbedConfig) -> str:
    """Return a testbed's name, such as ``4 hosts at 100 Mbit/s``."""
    rates = [in_bits(rate) for rate in testbed.rates]
    same = len(set(rates)) == 1
    name = f"{testbed.hosts} hosts at {rates[0] if same else '+'.join(rates)}"
    if testbed.racks:
        name += (
            f" in {len(testbed.racks.racks)} racks with uplinks at {in_bits(testbed.racks.uplink)}"
        )
    return name


def predicted_s(case: CollectiveCase, transport: Transport) -> float:
    """Return the seconds until the last rank is done; all begin together on idle links.

    Raises DpsimError if the transport lacks parameters for that.
    """
    cluster = _cluster(case.testbed, transport)
    by_library = case.algorithm == LIBRARY
    library, algorithm = ("gloo", "auto") if by_library else ("ideal", case.algorithm)
    gamma = max(reduction_cost(gpu) for gpu, _ in cluster.accelerators)
    model = transport_model(
        algorithm, cluster, transport, operation=case.operation, library=library, gamma=gamma
    )
    if model is None:
        raise DpsimError(
            f"{case.name}: must be predicted from a transport with processors and limiters, but "
            "the profile has none"
        )
    return model.seconds_from_common_start(case.bytes)


# A fit predicts many cases over the same few testbeds before it changes the transport.
@lru_cache(maxsize=64)
def _cluster(testbed: TestbedConfig, transport: Transport) -> Cluster:
    return build_cluster(cluster_over_transport(testbed.cluster(), transport))
