"""Cases to measure on a testbed: one algorithm of one collective operation at one size."""

from __future__ import annotations

from typing import Any

from pydantic import Field, NonNegativeInt, PositiveInt

from dpsim.base.config import Config
from dpsim.base.units import DATA, human
from dpsim.topology import TestbedConfig, in_bits
from validate.records import RunRecord

LIBRARY = "gloo"


class CollectiveCase(Config):
    """One collective operation by one algorithm, with one size, on one testbed.

    ``algorithm`` is dpsim's name of a schedule, or ``gloo``, the library's own; ``bytes`` are those
    of a vector.
    """

    testbed: TestbedConfig = Field(description="The hosts, one rank each, and their links.")
    operation: str = Field(default="all-reduce", description="The collective operation.")
    algorithm: str = Field(description="A schedule's name, or gloo.")
    bytes: NonNegativeInt = Field(description="Of one rank's vector; float32 elements.")
    repetitions: PositiveInt = Field(default=9, description="Measured, after the warm-up.")
    warmup: NonNegativeInt = Field(default=2, description="Repetitions before those.")

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
