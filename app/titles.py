"""Titles of scenarios from their contents: ``ResNet-50 · 64 x V100 · 10 GbE``."""

from __future__ import annotations

import re

from app.presets import short
from app.reading import scenario
from app.spec import Spec
from app.words import device_words
from dpsim.scenario import Scenario

# The spelling of families, by the leading letters of a catalogue's name.
_FAMILIES = {
    "alexnet": "AlexNet",
    "bart": "BART",
    "bert": "BERT",
    "densenet": "DenseNet-",
    "dlrm": "DLRM",
    "efficientnet": "EfficientNet",
    "googlenet": "GoogLeNet",
    "gnmt": "GNMT",
    "gpt": "GPT-",
    "lstm": "LSTM",
    "mpt": "MPT",
    "neumf": "NeuMF",
    "olmo": "OLMo",
    "olmoe": "OLMoE",
    "resnet": "ResNet-",
    "resnext": "ResNeXt-",
    "rnnt": "RNN-T",
    "ssd": "SSD",
    "vgg": "VGG-",
    "vit": "ViT",
}
_SPACED = ("gemma", "llama", "qwen")  # "Llama 3", "Qwen 2.5"
_SIZE = re.compile(r"\d+(x\d+)?(\.\d+)?[bm]")  # parameters
_BOARD = re.compile(r"sxm\d?|pcie|nvl|\d+gb")  # words of a GPU's name that a title leaves out


def model_words(name: str) -> str:
    """Return ``ResNet-50`` for ``resnet50``, ``Llama 3 8B`` for ``llama3-8b``."""
    first, *more = name.split("-")
    letters = re.match(r"[a-z]*", first)
    family = letters[0] if letters else ""
    number = first.removeprefix(family)
    words = _FAMILIES.get(family, family.capitalize())
    if family in _SPACED and number:
        words += " "
    words = f"{words}{number}" if number else words.rstrip("-")
    for each in more:
        words += f" {each[:-1]}{each[-1].upper()}" if _SIZE.fullmatch(each) else f"-{each}"
    return words


def gpu_words(name: str) -> str:
    """Return ``V100`` for ``v100-sxm2-16gb``, ``RTX 4090`` for ``rtx-4090``."""
    kept = [word for word in name.split("-") if not _BOARD.fullmatch(word)]
    return " ".join(kept).upper()


def title(given: Scenario) -> str:
    """Return the model, the GPUs and the network between nodes."""
    cluster = given.cluster
    gpus = dict.fromkeys(gpu_words(part.accelerator.name) for part in cluster.parts)
    words = [
        model_words(given.build_model().name),
        f"{cluster.ranks:,} x {' and '.join(gpus)}",
        _network(given),
    ]
    return " · ".join(word for word in words if word)


def _network(given: Scenario) -> str:
    cluster = given.cluster
    nodes = sum(part.nodes for part in cluster.parts)
    if given.testbed is not None:
        return "testbed"
    if nodes == 1:
        return "one node"
    cards = dict.fromkeys(device_words(card.name) for card in map(cluster.nic_link, cluster.parts))
    return " and ".join(cards)


def origin(spec: Spec) -> str:
    """Return the source of a changed or uploaded scenario; empty for an unchanged preset."""
    if spec.text is not None:
        return f"from {scenario(spec).name}"
    return f"from {short(spec.preset or '')}" if spec.changes else ""


def file_stem(spec: Spec) -> str:
    """Return a file name for ``spec``: the preset's, or the title as ``vgg-16-3-x-v100-10-gbe``."""
    if not spec.changes:
        return _stem(spec.preset or scenario(spec).name)
    return _stem(title(scenario(spec)).replace(",", ""))


def _stem(words: str) -> str:
    # A scenario's name is arbitrary text: remove folders and the shell's special characters.
    return re.sub(r"[^a-z0-9.]+", "-", words.lower()).strip("-.") or "scenario"
