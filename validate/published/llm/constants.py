"""Fitted constants of transformers by part and member, as dpsim computes with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpsim.workload import TransformerEfficiency, standing_for
from validate.published.tables import constants_file

TABLE, SETTINGS = "llm_fsdp.csv", "llm/settings.yaml"
# Where constants stand that all rows share.
EVERY = "every"
REFERENCE_KERNELS = "2023"  # the year that others are measured against

Values = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class Constants:
    """Fitted values by part, member and name, and their relative standard errors.

    Parts are those of ``transformers.yaml``: shared, generations, execution, kernels and unfused.
    """

    values: Values
    errors: Values

    def efficiency(self, generation: str, execution: str, kernels: str) -> TransformerEfficiency:
        """What dpsim computes with."""
        measured_on = standing_for(generation)
        found = dict(fixed_constants(measured_on))
        for part, member in members_of(generation, execution, kernels).items():
            for name, value in self.values[part].get(member, {}).items():
                # A constant is a product: kernels and execution multiply what the generation has.
                found[name] = found.get(name, 1.0) * value
        return TransformerEfficiency(**found, measured_on=measured_on)


def members_of(generation: str, execution: str, kernels: str) -> dict[str, str]:
    """Whose constants count, in each part; graphs are compiled too.

    What kernels of a year do not fuse, a compiler does.
    """
    eager = execution == "eager"
    return {
        "shared": EVERY,
        "generations": standing_for(generation),
        "execution": "eager" if eager else "compile",
        "kernels": kernels,
        "unfused": kernels if eager else REFERENCE_KERNELS,
    }


def fixed_constants(generation: str) -> dict[str, float]:
    """The constants that are not fitted."""
    fixed = constants_file(SETTINGS)["priors"]["fixed"]
    return {
        "launch": float(fixed["launch"]["value"]),
        "clock_power": float(fixed["clock_power"]["value"]),
        "watts": float(fixed["watts"][generation]["value"]),
    }
