"""The models known by name, built on request."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pkgutil import resolve_name
from typing import Any, TypeVar

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.base.registry import Registry
from dpsim.workload.layer import Model
from dpsim.workload.models.built import Images, Tokens

M = TypeVar("M")

_ANY_LENGTH = 16_384  # for models without a table of positions
_LONG_CONTEXT = 2**20  # for rotary positions, which are trained for long contexts


class FamilyModel:
    """A function of a family's module, with all its arguments except the sequence length.

    The module is imported when a model is built: a run needs one of twenty.
    """

    def __init__(self, home: str, *arguments: Any, **settings: Any) -> None:
        self.module = f"dpsim.workload.models.{home.partition(':')[0]}"
        self.home = f"dpsim.workload.models.{home}"
        self.arguments = arguments
        self.settings = settings

    # Studies of one model build it for each of their scenarios. Models are immutable.
    @lru_cache(maxsize=8)  # noqa: B019 - the catalogue's families live as long as the program
    def __call__(self, *sequence_length: int, **more: bool) -> Model:
        """Return the model, for sequences of that length where it is a model of sequences."""
        function: Callable[..., Model] = resolve_name(self.home)
        return function(*self.arguments, *sequence_length, **self.settings, **more)


def _bert(name: str, blocks: int, width: int, heads: int, positions: int = 512) -> Tokens:
    build = FamilyModel("bert:bert", name, blocks, width, heads, positions=positions)
    return Tokens(build, 128, positions, fusible=True)


def _gpt(name: str, blocks: int, width: int, heads: int, positions: int = 1024) -> Tokens:
    build = FamilyModel("gpt:gpt", name, blocks, width, heads, positions=positions)
    return Tokens(build, positions, positions, fusible=True)


def _llama(name: str, usual: int, *sizes: int, **more: Any) -> Tokens:
    build = FamilyModel("llama:of_sizes", name, *sizes, **more)
    return Tokens(build, usual, _LONG_CONTEXT, fusible=True)


def _mpt(name: str, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("mpt:mpt", name, *sizes), 2048, _LONG_CONTEXT, fusible=True)


def _mixtral(name: str, *sizes: int, words: int = 32_000) -> Tokens:
    return _llama(name, 4096, *sizes, groups=8, experts=(8, 2), words=words)


def _qwen2(name: str, *sizes: int, words: int = 151_936, tied: bool = False) -> Tokens:
    *shape, groups = sizes
    return _llama(name, 4096, *shape, groups=groups, biases=True, words=words, tied=tied)


def _qwen3(name: str, *sizes: int, groups: int = 8, **more: Any) -> Tokens:
    heads = {"groups": groups, "head": 128, "query_norms": "head"}
    return _llama(name, 4096, *sizes, words=151_936, **heads, **more)


def _gemma(name: str, *sizes: int, head: int = 256, words: int = 256_000, **more: Any) -> Tokens:
    *shape, groups = sizes
    return _llama(name, 8192, *shape, groups=groups, head=head, words=words, tied=True, **more)


_GEMMA2: dict[str, Any] = {"norms": "both", "window": 4096, "global_every": 2}
_GEMMA3: dict[str, Any] = {
    **_GEMMA2,
    "query_norms": "head",
    "window": 512,
    "global_every": 6,
    "words": 262_144,
}
_OLMO2: dict[str, Any] = {"norms": "after", "query_norms": "width", "words": 100_352}


def _olmo(name: str, *sizes: int, tied: bool = False) -> Tokens:
    return _llama(name, 2048, *sizes, norm_weights=False, words=50_304, tied=tied)


def _phi(name: str, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("neox:phi", name, *sizes, 51_200), 2048, 2048, fusible=True)


def _neox(name: str, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("neox:neox", name, *sizes), 2048, _LONG_CONTEXT, fusible=True)


def _modernbert(name: str, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("modernbert:modernbert", name, *sizes), 1024, 8192, fusible=True)


def _whisper(name: str, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("whisper:whisper", name, *sizes), 448, 448, fusible=True)


def _transformer_xl(name: str, usual: int, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("transformer_xl:of_sizes", name, *sizes), usual, _ANY_LENGTH)


def _bart(name: str, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("bart:bart", name, *sizes), 512, 1024, fusible=True)


def _electra(name: str, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("electra:electra", name, *sizes), 128, 512, fusible=True)


def _t5(name: str, *sizes: int, **more: Any) -> Tokens:
    return Tokens(FamilyModel("t5:of_sizes", name, *sizes, **more), 512, _ANY_LENGTH)


def _mamba(name: str, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("mamba:of_sizes", name, *sizes), 2048, _LONG_CONTEXT)


def _deepspeech(name: str, *sizes: int) -> Tokens:
    return Tokens(FamilyModel("deepspeech:deepspeech2", name, *sizes), 300, _ANY_LENGTH, "frames")


_IMAGES: dict[str, Callable[[], Model]] = {
    "alexnet": FamilyModel("alexnet:alexnet"),
    "vgg16": FamilyModel("vgg:vgg", "vgg16", (2, 2, 3, 3, 3)),
    "vgg19": FamilyModel("vgg:vgg", "vgg19", (2, 2, 4, 4, 4)),
    "vgg16-cifar": FamilyModel("vgg:vgg_cifar", "vgg16-cifar", (2, 2, 3, 3, 3)),
    "resnet18": FamilyModel("resnet:resnet", "resnet18", (2, 2, 2, 2), basic=True),
    "resnet34": FamilyModel("resnet:resnet", "resnet34", (3, 4, 6, 3), basic=True),
    "resnet50": FamilyModel("resnet:resnet", "resnet50", (3, 4, 6, 3)),
    "resnet101": FamilyModel("resnet:resnet", "resnet101", (3, 4, 23, 3)),
    "resnet152": FamilyModel("resnet:resnet", "resnet152", (3, 8, 36, 3)),
    "resnet18-cifar": FamilyModel("resnet:resnet18_cifar"),
    "resnet20-cifar": FamilyModel("resnet:resnet_cifar", "resnet20-cifar", 20),
    "resnet32-cifar": FamilyModel("resnet:resnet_cifar", "resnet32-cifar", 32),
    "resnet110-cifar": FamilyModel("resnet:resnet_cifar", "resnet110-cifar", 110),
    "googlenet": FamilyModel("googlenet:googlenet"),
    "inception-v3": FamilyModel("inception:inception_v3"),
    "inception-v4": FamilyModel("inception_v4:inception_v4"),
    "densenet161": FamilyModel("densenet:densenet", "densenet161", 48, 96, (6, 12, 36, 24)),
    "densenet201": FamilyModel("densenet:densenet", "densenet201", 32, 64, (6, 12, 48, 32)),
    "resnext50-32x4d": FamilyModel("resnet:resnext", "resnext50-32x4d", (3, 4, 6, 3)),
    "resnext101-32x4d": FamilyModel("resnet:resnext", "resnext101-32x4d", (3, 4, 23, 3)),
    "se-resnext101-32x4d": FamilyModel(
        "resnet:resnext", "se-resnext101-32x4d", (3, 4, 23, 3), squeeze=True
    ),
    "efficientnet-b0": FamilyModel("efficientnet:efficientnet", "efficientnet-b0", 224),
    "efficientnet-b4": FamilyModel("efficientnet:efficientnet", "efficientnet-b4", 380, 1.4, 1.8),
    "efficientnet-widese-b0": FamilyModel(
        "efficientnet:efficientnet", "efficientnet-widese-b0", 224, wide_squeeze=True
    ),
    "ssd300": FamilyModel("ssd:ssd300"),
    "ssd300-resnet34": FamilyModel("ssd:ssd300_resnet34"),
    "ssd320-resnet50-fpn": FamilyModel("retinanet:ssd320"),
    "retinanet": FamilyModel("retinanet:retinanet"),
    "mask-rcnn": FamilyModel("mask_rcnn:mask_rcnn"),
    "unet3d": FamilyModel("unet3d:unet3d"),
    "yolov3": FamilyModel("yolo:yolov3", "yolov3", 80),
    "yolov3-voc": FamilyModel("yolo:yolov3", "yolov3-voc", 20),
    # Neither images nor sequences, and without choices either.
    "neumf": FamilyModel("neumf:neumf", "neumf", 138_493, 26_744, 64, (256, 256, 128, 64)),
    "neumf-ml1m": FamilyModel("neumf:neumf", "neumf-ml1m", 6_040, 3_706, 32, (256, 128, 64, 32)),
    "dlrm": FamilyModel("dlrm:kaggle", "dlrm"),
    "dlrm-terabyte": FamilyModel("dlrm:terabyte", "dlrm-terabyte"),
}

_PATCHES: dict[str, Images] = {
    "stable-diffusion": Images(
        FamilyModel("stable_diffusion:unet", "stable-diffusion"), fusible=True
    ),
    "vit-b16": Images(FamilyModel("vit:vit", "vit-b16", 12, 768, 12), fusible=True),
    "vit-b32": Images(FamilyModel("vit:vit", "vit-b32", 12, 768, 12, patch=32), fusible=True),
    "vit-l16": Images(FamilyModel("vit:vit", "vit-l16", 24, 1024, 16), fusible=True),
    "vit-l32": Images(FamilyModel("vit:vit", "vit-l32", 24, 1024, 16, patch=32), fusible=True),
    "vit-h14": Images(FamilyModel("vit:vit", "vit-h14", 32, 1280, 16, patch=14), fusible=True),
}

_SEQUENCES: dict[str, Tokens] = {
    "bert-base": _bert("bert-base", 12, 768, 12),
    "bert-large": _bert("bert-large", 24, 1024, 16),
    "gpt2": _gpt("gpt2", 12, 768, 12),
    "gpt2-medium": _gpt("gpt2-medium", 24, 1024, 16),
    "gpt2-large": _gpt("gpt2-large", 36, 1280, 20),
    "gpt2-xl": _gpt("gpt2-xl", 48, 1600, 25),
    # The paper's table rounds: its 1.3B has 24 heads of 128 in a width of 2,048, its 13B a width
    # of 5,140 for 40 heads of 128.
    "gpt3-125m": _gpt("gpt3-125m", 12, 768, 12, 2048),
    "gpt3-350m": _gpt("gpt3-350m", 24, 1024, 16, 2048),
    "gpt3-760m": _gpt("gpt3-760m", 24, 1536, 16, 2048),
    "gpt3-1.3b": _gpt("gpt3-1.3b", 24, 2048, 16, 2048),
    "gpt3-2.7b": _gpt("gpt3-2.7b", 32, 2560, 32, 2048),
    # NVIDIA's sizes, from NeMo and JAX-Toolbox.
    "gpt3-5b": _gpt("gpt3-5b", 24, 4096, 32, 2048),
    "gpt3-6.7b": _gpt("gpt3-6.7b", 32, 4096, 32, 2048),
    "gpt3-13b": _gpt("gpt3-13b", 40, 5120, 40, 2048),
    "gpt3-175b": _gpt("gpt3-175b", 96, 12288, 96, 2048),
    "llama-7b": _llama("llama-7b", 2048, 32, 4096, 32, 11008),
    "llama-13b": _llama("llama-13b", 2048, 40, 5120, 40, 13824),
    "llama-65b": _llama("llama-65b", 2048, 80, 8192, 64, 22016),
    "llama2-7b": _llama("llama2-7b", 4096, 32, 4096, 32, 11008),
    "llama2-13b": _llama("llama2-13b", 4096, 40, 5120, 40, 13824),
    "llama2-70b": _llama("llama2-70b", 4096, 80, 8192, 64, 28672, groups=8),
    "llama2-34b": _llama("llama2-34b", 4096, 48, 8192, 64, 22016, groups=8),
    "llama3-8b": _llama("llama3-8b", 8192, 32, 4096, 32, 14336, groups=8, words=128_256),
    "llama3-70b": _llama("llama3-70b", 8192, 80, 8192, 64, 28672, groups=8, words=128_256),
    "llama3.1-8b": _llama("llama3.1-8b", 8192, 32, 4096, 32, 14336, groups=8, words=128_256),
    "llama3.1-70b": _llama("llama3.1-70b", 8192, 80, 8192, 64, 28672, groups=8, words=128_256),
    "llama3.1-405b": _llama("llama3.1-405b", 8192, 126, 16384, 128, 53248, groups=8, words=128_256),
    "llama3.2-1b": _llama(
        "llama3.2-1b", 8192, 16, 2048, 32, 8192, groups=8, words=128_256, tied=True
    ),
    "llama3.2-3b": _llama(
        "llama3.2-3b", 8192, 28, 3072, 24, 8192, groups=8, words=128_256, tied=True
    ),
    "mpt-125m": _mpt("mpt-125m", 12, 768, 12),
    "mpt-350m": _mpt("mpt-350m", 24, 1024, 16),
    "mpt-760m": _mpt("mpt-760m", 24, 1536, 12),
    "mpt-1b": _mpt("mpt-1b", 24, 2048, 16),
    "mpt-3b": _mpt("mpt-3b", 32, 2560, 20),
    "mpt-7b": _mpt("mpt-7b", 32, 4096, 32),
    "mpt-13b": _mpt("mpt-13b", 40, 5120, 40),
    "mpt-30b": _mpt("mpt-30b", 48, 7168, 56),
    "mpt-70b": _mpt("mpt-70b", 80, 8192, 64),
    "mistral-7b": _llama("mistral-7b", 8192, 32, 4096, 32, 14336, groups=8, window=4096),
    "mixtral-8x7b": _mixtral("mixtral-8x7b", 32, 4096, 32, 14336),
    "mixtral-8x22b": _mixtral("mixtral-8x22b", 56, 6144, 48, 16384, words=32_768),
    "qwen2-0.5b": _qwen2("qwen2-0.5b", 24, 896, 14, 4864, 2, tied=True),
    "qwen2-1.5b": _qwen2("qwen2-1.5b", 28, 1536, 12, 8960, 2, tied=True),
    "qwen2-7b": _qwen2("qwen2-7b", 28, 3584, 28, 18944, 4, words=152_064),
    "qwen2-72b": _qwen2("qwen2-72b", 80, 8192, 64, 29568, 8, words=152_064),
    "qwen2.5-3b": _qwen2("qwen2.5-3b", 36, 2048, 16, 11008, 2, tied=True),
    "qwen2.5-14b": _qwen2("qwen2.5-14b", 48, 5120, 40, 13824, 8, words=152_064),
    "qwen2.5-32b": _qwen2("qwen2.5-32b", 64, 5120, 40, 27648, 8, words=152_064),
    "qwen3-0.6b": _qwen3("qwen3-0.6b", 28, 1024, 16, 3072, tied=True),
    "qwen3-1.7b": _qwen3("qwen3-1.7b", 28, 2048, 16, 6144, tied=True),
    "qwen3-4b": _qwen3("qwen3-4b", 36, 2560, 32, 9728, tied=True),
    "qwen3-8b": _qwen3("qwen3-8b", 36, 4096, 32, 12288),
    "qwen3-14b": _qwen3("qwen3-14b", 40, 5120, 40, 17408),
    "qwen3-32b": _qwen3("qwen3-32b", 64, 5120, 64, 25600),
    "olmoe-1b-7b": _llama(
        "olmoe-1b-7b", 4096, 16, 2048, 16, 1024, experts=(64, 8), query_norms="width", words=50_304
    ),
    "qwen3-30b-a3b": _qwen3("qwen3-30b-a3b", 48, 2048, 32, 768, groups=4, experts=(128, 8)),
    "gemma-2b": _gemma("gemma-2b", 18, 2048, 8, 16384, 1),
    "gemma-7b": _gemma("gemma-7b", 28, 3072, 16, 24576, 16),
    "gemma2-2b": _gemma("gemma2-2b", 26, 2304, 8, 9216, 4, **_GEMMA2),
    "gemma2-9b": _gemma("gemma2-9b", 42, 3584, 16, 14336, 8, **_GEMMA2),
    "gemma2-27b": _gemma("gemma2-27b", 46, 4608, 32, 36864, 16, **{**_GEMMA2, "head": 128}),
    "gemma3-1b": _gemma("gemma3-1b", 26, 1152, 4, 6912, 1, **_GEMMA3),
    "phi-1.5": _phi("phi-1.5", 24, 2048, 32),
    "phi-2": _phi("phi-2", 32, 2560, 32),
    "phi-3-mini": _llama("phi-3-mini", 4096, 32, 3072, 32, 8192, packed=True, words=32_064),
    "phi-4": _llama("phi-4", 4096, 40, 5120, 40, 17920, packed=True, groups=10, words=100_352),
    "olmo-1b": _olmo("olmo-1b", 16, 2048, 16, 8192, tied=True),
    "olmo-7b": _olmo("olmo-7b", 32, 4096, 32, 11008),
    "olmo2-7b": _llama("olmo2-7b", 4096, 32, 4096, 32, 11008, **_OLMO2),
    "olmo2-13b": _llama("olmo2-13b", 4096, 40, 5120, 40, 13824, **_OLMO2),
    "gpt-neox-20b": _neox("gpt-neox-20b", 44, 6144, 64, 50_432),
    "pythia-160m": _neox("pythia-160m", 12, 768, 12, 50_304),
    "pythia-410m": _neox("pythia-410m", 24, 1024, 16, 50_304),
    "pythia-1b": _neox("pythia-1b", 16, 2048, 8, 50_304),
    "pythia-1.4b": _neox("pythia-1.4b", 24, 2048, 16, 50_304),
    "pythia-2.8b": _neox("pythia-2.8b", 32, 2560, 32, 50_304),
    "pythia-6.9b": _neox("pythia-6.9b", 32, 4096, 32, 50_432),
    "pythia-12b": _neox("pythia-12b", 36, 5120, 40, 50_688),
    "modernbert-base": _modernbert("modernbert-base", 22, 768, 12, 1152),
    "modernbert-large": _modernbert("modernbert-large", 28, 1024, 16, 2624),
    "whisper-tiny": _whisper("whisper-tiny", 4, 384, 6),
    "whisper-base": _whisper("whisper-base", 6, 512, 8),
    "whisper-small": _whisper("whisper-small", 12, 768, 12),
    "whisper-medium": _whisper("whisper-medium", 24, 1024, 16),
    "whisper-large": _whisper("whisper-large", 32, 1280, 20),
    "transformer-big": Tokens(
        FamilyModel("transformer:transformer", "transformer-big", 6, 1024, 16), 32, _ANY_LENGTH
    ),
    "transformer-xl-base": _transformer_xl("transformer-xl-base", 192, 16, 512, 8, 2048, 1),
    "transformer-xl-large": _transformer_xl("transformer-xl-large", 384, 18, 1024, 16, 4096, 4),
    "gnmt": Tokens(FamilyModel("gnmt:gnmt", "gnmt"), 32, 1024),
    "lstm-ptb": Tokens(FamilyModel("lstm:lstm_ptb", "lstm-ptb", 10_000, 1500, 2), 35, _ANY_LENGTH),
    "t5-small": _t5("t5-small", 6, 512, 8, 2048),
    "t5-base": _t5("t5-base", 12, 768, 12, 3072),
    "t5-large": _t5("t5-large", 24, 1024, 16, 4096),
    "t5-3b": _t5("t5-3b", 24, 1024, 32, 16_384, each=128),
    "t5-v1.1-small": _t5("t5-v1.1-small", 8, 512, 6, 1024, newer=True),
    "t5-v1.1-base": _t5("t5-v1.1-base", 12, 768, 12, 2048, newer=True),
    "t5-v1.1-large": _t5("t5-v1.1-large", 24, 1024, 16, 2816, newer=True),
    "t5-v1.1-xl": _t5("t5-v1.1-xl", 24, 2048, 32, 5120, newer=True),
    "t5-v1.1-xxl": _t5("t5-v1.1-xxl", 24, 4096, 64, 10_240, newer=True),
    "bart-base": _bart("bart-base", 6, 768, 12),
    "bart-large": _bart("bart-large", 12, 1024, 16),
    "electra-base": _electra("electra-base", 12, 768, 12, 3),
    "electra-large": _electra("electra-large", 24, 1024, 16, 4),
    "mamba-130m": _mamba("mamba-130m", 24, 768),
    "mamba-370m": _mamba("mamba-370m", 48, 1024),
    "mamba-790m": _mamba("mamba-790m", 48, 1536),
    "mamba-1.4b": _mamba("mamba-1.4b", 48, 2048),
    "mamba-2.8b": _mamba("mamba-2.8b", 64, 2560),
    "jasper10x5": Tokens(FamilyModel("jasper:jasper", "jasper10x5"), 1670, _ANY_LENGTH, "frames"),
    "rnnt": Tokens(FamilyModel("rnnt:rnnt", "rnnt"), 1230, _ANY_LENGTH, "frames"),
    "deepspeech2": _deepspeech("deepspeech2", 2, 5, 800),
    "deepspeech2-large": _deepspeech("deepspeech2-large", 3, 7, 1200),
}

MODELS: Registry[Images | Tokens] = Registry(
    "model",
    {
        **{name: Images(factory) for name, factory in _IMAGES.items()},
        **_PATCHES,
        **_SEQUENCES,
    },
)


def _plain(name: str) -> str:
    """Return letters, digits, and dots between digits, which distinguish GPT-3 1.3B from 13B."""
    return re.sub(r"[^a-z0-9.]|(?<!\d)\.|\.(?!\d)", "", name.lower())


_SPELLINGS = {_plain(name): name for name in MODELS} | {
    "gpt2small": "gpt2",
    "bertbaseuncased": "bert-base",
    "bertlargeuncased": "bert-large",
    "gpt3": "gpt3-175b",
    "gnmtv2": "gnmt",
    "resnet18cifar10": "resnet18-cifar",
    "resnet20cifar10": "resnet20-cifar",
    "resnet50v1.5": "resnet50",
    "vgg16cifar10": "vgg16-cifar",
    # These sizes of Qwen 2.5 are the same as of Qwen 2; Llama 3.3 is Llama 3.1 with more training.
    **{f"qwen2.5{size}": f"qwen2-{size}" for size in ("0.5b", "1.5b", "7b", "72b")},
    "llama3.370b": "llama3.1-70b",
    "whisperlargev2": "whisper-large",
    "vitbase": "vit-b16",
    "vitlarge": "vit-l16",
}


# A Hugging Face repository: its owner, the model, and a suffix for further training.
_REPOSITORY = re.compile(
    r"[\w-]+/(?:meta-)?(?P<model>[\w.-]+?)(?:-instruct|-chat|-it|-hf|-v0\.1)*", re.IGNORECASE
)


def canonical_name(name: str) -> str:
    """Return the catalogue's spelling of a model's name.

    ``"ResNet-50"`` is ``"resnet50"`` and ``"meta-llama/Meta-Llama-3-8B"`` is ``"llama3-8b"``.
    Raises UnknownNameError.
    """
    repository = _REPOSITORY.fullmatch(name)
    spellings = [name, repository["model"]] if repository else [name]
    for spelling in map(_plain, spellings):
        if spelling in _SPELLINGS:
            return _SPELLINGS[spelling]
    if name.endswith(".json"):
        raise DpsimError(
            f"must be a known model, or a file as {{config: {name}}}, but got {name!r}"
        )
    raise UnknownNameError("model", name, MODELS)


def known_model(model: M) -> M | str:
    """Return the catalogue's spelling of a name; return a user's own model unchanged.

    Raises UnknownNameError.
    """
    return canonical_name(model) if isinstance(model, str) else model


def build_model(name: str, sequence_length: int | None = None) -> Model:
    """Build the named model.

    Raises UnknownNameError, or DpsimError for a sequence length that it does not accept.
    """
    return MODELS[canonical_name(name)].build(sequence_length)
