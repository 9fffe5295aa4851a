"""Fits the effects that the package ships anew.

``python -m tools.refits.imagenet_refit`` writes its fitted.yaml.
"""

from __future__ import annotations

from dpsim.base.terminal import write_whole
from tools.refits.step_constants import PUBLISHED
from tools.refits.yaml_files import rounded, yaml_text
from validate.published.imagenet import EFFECTS, FITTED, Effects, public_effects

HEADER = """\
# Written by: python -m tools.refits.imagenet_refit. \
Factors on the roofline's compute times (imagenet/model.py), fitted on
# data/imagenet_records.csv and the fastest rows of data/single_gpu.csv. \
error: standard deviation of the logarithm.
"""


def text(effects: Effects) -> str:
    """The file as it is written."""
    content = {
        effect: {
            name: {"value": rounded(value, 4), "error": rounded(effects.errors[effect][name], 2)}
            for name, value in effects.values[effect].items()
        }
        for effect in EFFECTS
    }
    return yaml_text(HEADER, content)


if __name__ == "__main__":
    write_whole(PUBLISHED / FITTED, text(public_effects()))
