"""The models by name, built on request."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
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
    """A family's function with all its arguments except the sequence length.

    Its module is imported when a model is built, because a run needs few of them.
    """

    def __init__(self, home: str, *arguments: Any, **settings: Any) -> None:
        self.module = f"dpsim.workload.models.{home.partition(':')[0]}"
        self.home = f"dpsim.workload.models.{home}"
        self.arguments = arguments
        self.settings = settings

    # Studies of one model build it for each of their scenarios. Models are immutable.
    @lru_cache(maxsize=8)  # noqa: B019 - the catalogue's families live as long as the program
    def __call__(self, *sequence_length: int, **more: bool) -> Model:
        """Return the model, of that sequence length if it is a model of sequences."""
        function: Callable[..., Model] = resolve_name(self.home)
        return function(*self.arguments, *sequence_length, **self.settings, **more)


class _Family:
    """The models that one function builds, with ``shared`` settings.

    ``usual`` and ``longest`` are lengths of a sequence in ``unit``; None for images.
    """

    def __init__(
        self,
        home: str,
        usual: int | None = None,
        longest: int = _LONG_CONTEXT,
        unit: str = "tokens",
        *,
        fusible: bool = False,
        **shared: Any,
    ) -> None:
        self._home = home
        self._lengths = None if usual is None else (usual, longest, unit)
        self._fusible = fusible
        self._shared = shared

    def __call__(self, *sizes: Any, **more: Any) -> Callable[[str], Images | Tokens]:
        """Return a function that returns the entry of the model of these sizes, given its name."""

        def entry(name: str) -> Images | Tokens:
            build = FamilyModel(self._home, name, *sizes, **{**self._shared, **more})
            if self._lengths is None:
                return Images(build, fusible=self._fusible)
            return Tokens(build, *self._lengths, fusible=self._fusible)

        return entry


_VGG = _Family("vgg:vgg")
_RESNET = _Family("resnet:resnet")
_RESNET_CIFAR = _Family("resnet:resnet_cifar")
_DENSENET = _Family("densenet:densenet")
_RESNEXT = _Family("resnet:resnext")
_EFFICIENTNET = _Family("efficientnet:efficientnet")
_SSD = _Family("ssd:ssd300")
_YOLO = _Family("yolo:yolov3")
_NEUMF = _Family("neumf:neumf")
_DLRM = _Family("dlrm:dlrm")
_VIT = _Family("vit:vit", fusible=True)

_BERT = _Family("bert:bert", 128, 512, fusible=True, positions=512)
_GPT2 = _Family("gpt:gpt", 1024, 1024, fusible=True, positions=1024)
_GPT3 = _Family("gpt:gpt", 2048, 2048, fusible=True, positions=2048)
_MPT = _Family("mpt:mpt", 2048, fusible=True)
_llama = partial(_Family, "llama:llama", fusible=True)
_LLAMA = _llama(2048)
_LLAMA2 = _llama(4096)
_LLAMA3 = _llama(8192, groups=8, words=128_256)
_MIXTRAL = _llama(4096, groups=8, experts=(8, 2))
_QWEN2 = _llama(4096, biases=True, words=151_936)
_QWEN3 = _llama(4096, groups=8, head=128, query_norms="head", words=151_936)
_GEMMA = _llama(8192, head=256, words=256_000, tied=True)
_gemma2 = partial(_llama, 8192, head=256, tied=True, norms="both")
_GEMMA2 = _gemma2(words=256_000, window=4096, global_every=2)
_GEMMA3 = _gemma2(words=262_144, window=512, global_every=6, query_norms="head")
_PHI3 = _llama(4096, packed=True)
_OLMO = _llama(2048, norm_weights=False, words=50_304)
_OLMO2 = _llama(4096, norms="after", query_norms="width", words=100_352)
_OLMOE = _llama(4096, experts=(64, 8), query_norms="width", words=50_304)
_PHI = _Family("neox:phi", 2048, 2048, fusible=True)
_NEOX = _Family("neox:neox", 2048, fusible=True)
_MODERNBERT = _Family("modernbert:modernbert", 1024, 8192, fusible=True)
_WHISPER = _Family("whisper:whisper", 448, 448, fusible=True)
_T5 = _Family("t5:t5", 512, _ANY_LENGTH)
_BART = _Family("bart:bart", 512, 1024, fusible=True)
_ELECTRA = _Family("electra:electra", 128, 512, fusible=True)
_MAMBA = _Family("mamba:mamba", 2048)
_transformer_xl = partial(_Family, "transformer_xl:transformer_xl", longest=_ANY_LENGTH)
_DEEPSPEECH = _Family("deepspeech:deepspeech2", 300, _ANY_LENGTH, "frames")

_ENTRIES: dict[str, Callable[[str], Images | Tokens]] = {
    "alexnet": _Family("alexnet:alexnet")(),
    "vgg16": _VGG((2, 2, 3, 3, 3)),
    "vgg19": _VGG((2, 2, 4, 4, 4)),
    "vgg16-cifar": _Family("vgg:vgg_cifar")((2, 2, 3, 3, 3)),
    "resnet18": _RESNET((2, 2, 2, 2), basic=True),
    "resnet34": _RESNET((3, 4, 6, 3), basic=True),
    "resnet50": _RESNET((3, 4, 6, 3)),
    "resnet101": _RESNET((3, 4, 23, 3)),
    "resnet152": _RESNET((3, 8, 36, 3)),
    "resnet18-cifar": _RESNET_CIFAR((2, 2, 2, 2), 64),
    "resnet20-cifar": _RESNET_CIFAR((3, 3, 3), 16, projected=False),
    "resnet32-cifar": _RESNET_CIFAR((5, 5, 5), 16, projected=False),
    "resnet110-cifar": _RESNET_CIFAR((18, 18, 18), 16, projected=False),
    "googlenet": _Family("googlenet:googlenet")(),
    "inception-v3": _Family("inception:inception_v3")(),
    "inception-v4": _Family("inception_v4:inception_v4")(),
    "densenet161": _DENSENET(48, 96, (6, 12, 36, 24)),
    "densenet201": _DENSENET(32, 64, (6, 12, 48, 32)),
    "resnext50-32x4d": _RESNEXT((3, 4, 6, 3)),
    "resnext101-32x4d": _RESNEXT((3, 4, 23, 3)),
    "se-resnext101-32x4d": _RESNEXT((3, 4, 23, 3), squeeze=True),
    "efficientnet-b0": _EFFICIENTNET(224),
    "efficientnet-b4": _EFFICIENTNET(380, 1.4, 1.8),
    "efficientnet-widese-b0": _EFFICIENTNET(224, wide_squeeze=True),
    "ssd300": _SSD(),
    "ssd300-resnet34": _SSD(mlperf=True),
    "ssd320-resnet50-fpn": _Family("retinanet:ssd320")(),
    "retinanet": _Family("retinanet:retinanet")(),
    "mask-rcnn": _Family("mask_rcnn:mask_rcnn")(),
    "unet3d": _Family("unet3d:unet3d")(),
    "yolov3": _YOLO(80),
    "yolov3-voc": _YOLO(20),
    "neumf": _NEUMF(138_493, 26_744, 64, (256, 256, 128, 64)),
    "neumf-ml1m": _NEUMF(6_040, 3_706, 32, (256, 128, 64, 32)),
    "dlrm": _DLRM((512, 256, 64, 16), (512, 256, 1)),
    "dlrm-terabyte": _DLRM((512, 256, 128), (1024, 1024, 512, 256, 1), terabyte=True),
    "stable-diffusion": _Family("stable_diffusion:unet", fusible=True)(),
    "vit-b16": _VIT(12, 768, 12),
    "vit-b32": _VIT(12, 768, 12, patch=32),
    "vit-l16": _VIT(24, 1024, 16),
    "vit-l32": _VIT(24, 1024, 16, patch=32),
    "vit-h14": _VIT(32, 1280, 16, patch=14),
    "bert-base": _BERT(12, 768, 12),
    "bert-large": _BERT(24, 1024, 16),
    "gpt2": _GPT2(12, 768, 12),
    "gpt2-medium": _GPT2(24, 1024, 16),
    "gpt2-large": _GPT2(36, 1280, 20),
    "gpt2-xl": _GPT2(48, 1600, 25),
    # The paper's table rounds: 24 heads of 128 in a width of 2,048 (1.3B), a width of 5,140 for 40
    # heads of 128 (13B).
    "gpt3-125m": _GPT3(12, 768, 12),
    "gpt3-350m": _GPT3(24, 1024, 16),
    "gpt3-760m": _GPT3(24, 1536, 16),
    "gpt3-1.3b": _GPT3(24, 2048, 16),
    "gpt3-2.7b": _GPT3(32, 2560, 32),
    # NVIDIA's sizes, from NeMo and JAX-Toolbox.
    "gpt3-5b": _GPT3(24, 4096, 32),
    "gpt3-6.7b": _GPT3(32, 4096, 32),
    "gpt3-13b": _GPT3(40, 5120, 40),
    "gpt3-175b": _GPT3(96, 12288, 96),
    "llama-7b": _LLAMA(32, 4096, 32, 11008),
    "llama-13b": _LLAMA(40, 5120, 40, 13824),
    "llama-65b": _LLAMA(80, 8192, 64, 22016),
    "llama2-7b": _LLAMA2(32, 4096, 32, 11008),
    "llama2-13b": _LLAMA2(40, 5120, 40, 13824),
    "llama2-70b": _LLAMA2(80, 8192, 64, 28672, groups=8),
    "llama2-34b": _LLAMA2(48, 8192, 64, 22016, groups=8),
    "llama3-8b": _LLAMA3(32, 4096, 32, 14336),
    "llama3-70b": _LLAMA3(80, 8192, 64, 28672),
    "llama3.1-8b": _LLAMA3(32, 4096, 32, 14336),
    "llama3.1-70b": _LLAMA3(80, 8192, 64, 28672),
    "llama3.1-405b": _LLAMA3(126, 16384, 128, 53248),
    "llama3.2-1b": _LLAMA3(16, 2048, 32, 8192, tied=True),
    "llama3.2-3b": _LLAMA3(28, 3072, 24, 8192, tied=True),
    "mpt-125m": _MPT(12, 768, 12),
    "mpt-350m": _MPT(24, 1024, 16),
    "mpt-760m": _MPT(24, 1536, 12),
    "mpt-1b": _MPT(24, 2048, 16),
    "mpt-3b": _MPT(32, 2560, 20),
    "mpt-7b": _MPT(32, 4096, 32),
    "mpt-13b": _MPT(40, 5120, 40),
    "mpt-30b": _MPT(48, 7168, 56),
    "mpt-70b": _MPT(80, 8192, 64),
    "mistral-7b": _llama(8192)(32, 4096, 32, 14336, groups=8, window=4096),
    "mixtral-8x7b": _MIXTRAL(32, 4096, 32, 14336),
    "mixtral-8x22b": _MIXTRAL(56, 6144, 48, 16384, words=32_768),
    "qwen2-0.5b": _QWEN2(24, 896, 14, 4864, groups=2, tied=True),
    "qwen2-1.5b": _QWEN2(28, 1536, 12, 8960, groups=2, tied=True),
    "qwen2-7b": _QWEN2(28, 3584, 28, 18944, groups=4, words=152_064),
    "qwen2-72b": _QWEN2(80, 8192, 64, 29568, groups=8, words=152_064),
    "qwen2.5-3b": _QWEN2(36, 2048, 16, 11008, groups=2, tied=True),
    "qwen2.5-14b": _QWEN2(48, 5120, 40, 13824, groups=8, words=152_064),
    "qwen2.5-32b": _QWEN2(64, 5120, 40, 27648, groups=8, words=152_064),
    "qwen3-0.6b": _QWEN3(28, 1024, 16, 3072, tied=True),
    "qwen3-1.7b": _QWEN3(28, 2048, 16, 6144, tied=True),
    "qwen3-4b": _QWEN3(36, 2560, 32, 9728, tied=True),
    "qwen3-8b": _QWEN3(36, 4096, 32, 12288),
    "qwen3-14b": _QWEN3(40, 5120, 40, 17408),
    "qwen3-32b": _QWEN3(64, 5120, 64, 25600),
    "olmoe-1b-7b": _OLMOE(16, 2048, 16, 1024),
    "qwen3-30b-a3b": _QWEN3(48, 2048, 32, 768, groups=4, experts=(128, 8)),
    "gemma-2b": _GEMMA(18, 2048, 8, 16384, groups=1),
    "gemma-7b": _GEMMA(28, 3072, 16, 24576, groups=16),
    "gemma2-2b": _GEMMA2(26, 2304, 8, 9216, groups=4),
    "gemma2-9b": _GEMMA2(42, 3584, 16, 14336, groups=8),
    "gemma2-27b": _GEMMA2(46, 4608, 32, 36864, groups=16, head=128),
    "gemma3-1b": _GEMMA3(26, 1152, 4, 6912, groups=1),
    "phi-1.5": _PHI(24, 2048, 32, 51_200),
    "phi-2": _PHI(32, 2560, 32, 51_200),
    "phi-3-mini": _PHI3(32, 3072, 32, 8192, words=32_064),
    "phi-4": _PHI3(40, 5120, 40, 17920, groups=10, words=100_352),
    "olmo-1b": _OLMO(16, 2048, 16, 8192, tied=True),
    "olmo-7b": _OLMO(32, 4096, 32, 11008),
    "olmo2-7b": _OLMO2(32, 4096, 32, 11008),
    "olmo2-13b": _OLMO2(40, 5120, 40, 13824),
    "gpt-neox-20b": _NEOX(44, 6144, 64, 50_432),
    "pythia-160m": _NEOX(12, 768, 12, 50_304),
    "pythia-410m": _NEOX(24, 1024, 16, 50_304),
    "pythia-1b": _NEOX(16, 2048, 8, 50_304),
    "pythia-1.4b": _NEOX(24, 2048, 16, 50_304),
    "pythia-2.8b": _NEOX(32, 2560, 32, 50_304),
    "pythia-6.9b": _NEOX(32, 4096, 32, 50_432),
    "pythia-12b": _NEOX(36, 5120, 40, 50_688),
    "modernbert-base": _MODERNBERT(22, 768, 12, 1152),
    "modernbert-large": _MODERNBERT(28, 1024, 16, 2624),
    "whisper-tiny": _WHISPER(4, 384, 6),
    "whisper-base": _WHISPER(6, 512, 8),
    "whisper-small": _WHISPER(12, 768, 12),
    "whisper-medium": _WHISPER(24, 1024, 16),
    "whisper-large": _WHISPER(32, 1280, 20),
    "transformer-big": _Family("transformer:transformer", 32, _ANY_LENGTH)(6, 1024, 16),
    "transformer-xl-base": _transformer_xl(192)(16, 512, 8, 2048, 1),
    "transformer-xl-large": _transformer_xl(384)(18, 1024, 16, 4096, 4),
    "gnmt": _Family("gnmt:gnmt", 32, 1024)(),
    "lstm-ptb": _Family("lstm:lstm_ptb", 35, _ANY_LENGTH)(10_000, 1500, 2),
    "t5-small": _T5(6, 512, 8, 2048),
    "t5-base": _T5(12, 768, 12, 3072),
    "t5-large": _T5(24, 1024, 16, 4096),
    "t5-3b": _T5(24, 1024, 32, 16_384, head_width=128),
    "t5-v1.1-small": _T5(8, 512, 6, 1024, newer=True),
    "t5-v1.1-base": _T5(12, 768, 12, 2048, newer=True),
    "t5-v1.1-large": _T5(24, 1024, 16, 2816, newer=True),
    "t5-v1.1-xl": _T5(24, 2048, 32, 5120, newer=True),
    "t5-v1.1-xxl": _T5(24, 4096, 64, 10_240, newer=True),
    "bart-base": _BART(6, 768, 12),
    "bart-large": _BART(12, 1024, 16),
    "electra-base": _ELECTRA(12, 768, 12, 3),
    "electra-large": _ELECTRA(24, 1024, 16, 4),
    "mamba-130m": _MAMBA(24, 768),
    "mamba-370m": _MAMBA(48, 1024),
    "mamba-790m": _MAMBA(48, 1536),
    "mamba-1.4b": _MAMBA(48, 2048),
    "mamba-2.8b": _MAMBA(64, 2560),
    "jasper10x5": _Family("jasper:jasper", 1670, _ANY_LENGTH, "frames")(),
    "rnnt": _Family("rnnt:rnnt", 1230, _ANY_LENGTH, "frames")(),
    "deepspeech2": _DEEPSPEECH(2, 5, 800),
    "deepspeech2-large": _DEEPSPEECH(3, 7, 1200),
}

MODELS: Registry[Images | Tokens] = Registry(
    "model", {name: entry(name) for name, entry in _ENTRIES.items()}
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
    # Qwen 2.5 of these sizes has Qwen 2's architecture, and Llama 3.3 that of Llama 3.1.
    **{f"qwen2.5{size}": f"qwen2-{size}" for size in ("0.5b", "1.5b", "7b", "72b")},
    "llama3.370b": "llama3.1-70b",
    "whisperlargev2": "whisper-large",
    "vitbase": "vit-b16",
    "vitlarge": "vit-l16",
}


# A Hugging Face repository: owner, model, and a suffix for further training.
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
    """Return the catalogue's spelling of a name, or a user's own model unchanged.

    Raises UnknownNameError.
    """
    return canonical_name(model) if isinstance(model, str) else model


def build_model(name: str, sequence_length: int | None = None) -> Model:
    """Build the named model.

    Raises UnknownNameError, or DpsimError for a sequence length that it does not accept.
    """
    return MODELS[canonical_name(name)].build(sequence_length)
