"""A prediction's assumptions, calibration and error, and what is not modelled, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpsim.base.units import TIME, human
from dpsim.report.figures.style import Answer
from dpsim.workload import constants_file

ASSUMPTIONS = (
    "A link carries its nominal rate times the share that messages reach; flows that share it get "
    "max-min fair shares.",
    "A transfer takes its route's latency and its bytes at that rate; a collective's rounds "
    "follow one another at each rank.",
    "Every worker computes the same model on as many samples; what varies from step to step is "
    "what the scenario says.",
    "Communication beside computation slows neither down.",
)
NOT_MODELLED = (
    "Codecs' times and memory use are formulas that were not measured.",
    "Overheads of a communication library are left out where the all-reduce's library is ideal.",
    "A GPU uses one network card; copies to a GPU do not contend with gradients, nor do other "
    "jobs unless they are given.",
    "Quirks of virtual machines, switches and drivers are left out, and clocks that drop under "
    "load or heat.",
    "A model that is split over several GPUs as well as replicated.",
)


def assumptions(answers: Iterable[Answer]) -> list[str]:
    """Return the assumptions behind ``answers``, and their own notes."""
    lines = list(ASSUMPTIONS)
    for each in answers:
        lines += [f"{each['name']}: {note}" for note in each.get("notes", ())]
        energy = each.get("energy")
        if energy is not None:
            lines.append(
                f"Energy: each GPU draws {energy['gpu_power_W']:g} W ({energy['source']})."
            )
    # Variants share most of them: each is stated once, in the order of appearance.
    return list(dict.fromkeys(lines))


def calibrations(answers: Iterable[Answer]) -> list[str]:
    """Return the sources of the times of ``answers`` and their errors, each once."""
    return list(
        dict.fromkeys(
            _calibration(each["calibration"]) for each in answers if "calibration" in each
        )
    )


def _calibration(used: str | dict[str, Any]) -> str:
    if used == "catalogue":
        return (
            "Compute times come from the catalogue's figures, which were not measured: "
            f"{_computing_error()}"
        )
    if used == "profile":
        return (
            "Compute times are those measured in the model's profile; "
            "no error is known for them here."
        )
    if isinstance(used, str):
        return f"Calibration: {used}"
    if "residuals" in used:
        errors = used["residuals"]
        compute = _calibration(str(used["compute"]))
        # Stored answers may be older than the key `residuals_of`.
        what = used.get("residuals_of") or ("messages" if used["parameters"] else "layers")
        return (
            f"Times as measured ({used['name']}): {what} off by {errors['mean_ape']:.1%} on "
            "average, "
            f"{errors['worst_ape']:.1%} at worst, "
            f"over {errors['n']} {errors['counted_on']}. {compute}"
        )
    if "step_time" in used:
        return _measured_step(used)
    return f"Compute times are multiplied by {used['compute_scale']:.3f} ({used['source']})."


def _computing_error() -> str:
    """Return the error of the fitted constants on models that were left out of the fit."""
    what = "each publisher left out"
    error = constants_file()["errors"][what]["all"]
    return (
        f"median error {error['median']:.0%}, mean {error['mean']:.0%} "
        f"over {error['n']} published rows ({what})."
    )


def _measured_step(used: dict[str, Any]) -> str:
    step = human(float(used["step_time"]), TIME)
    if "cell" in used:
        return (
            f"Cells of {used['cell']} GPUs take the measured {step} ({used['source']}); what "
            "is predicted is what they exchange."
        )
    return (
        f"Compute times are multiplied by {used['compute_scale']:.3f}, so that "
        f"{used['nodes']} nodes take the measured {step} "
        f"({used['source']}): exact there; what is predicted is what differs from it."
    )
