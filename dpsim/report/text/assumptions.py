"""A prediction's assumptions, calibration and error, and what is not modelled, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable

from dpsim.report.figures.style import Answer
from dpsim.report.text.tables import calibration_note
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
    used = [each["calibration"] for each in answers if "calibration" in each]
    notes = list(dict.fromkeys(map(calibration_note, used)))
    return [*notes, *([_computing_error()] if "catalogue" in used else [])]


def _computing_error() -> str:
    """Return the error of the fitted constants on models that were left out of the fit."""
    what = "each publisher left out"
    error = constants_file()["errors"][what]["all"]
    return (
        f"Errors of the catalogue's compute times: median {error['median']:.0%}, mean "
        f"{error['mean']:.0%} over {error['n']} published rows ({what})."
    )
