"""Gradient compression: codecs with their payload size, cost and encoding.

Depends neither on networks nor on other strategies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dpsim.base.kinds import Kinds
from dpsim.base.lazy import on_demand
from dpsim.strategy.compression.codec import Codec, Encoded, Floats
from dpsim.strategy.compression.none import NoCompressionConfig

if TYPE_CHECKING:
    from dpsim.strategy.compression.cast import CastConfig
    from dpsim.strategy.compression.compressed_mean import CompressedMean
    from dpsim.strategy.compression.int8 import Int8Config
    from dpsim.strategy.compression.onebit import OneBitConfig
    from dpsim.strategy.compression.packing import ceil_div
    from dpsim.strategy.compression.powersgd import PowerSgdConfig
    from dpsim.strategy.compression.qsgd import QsgdConfig
    from dpsim.strategy.compression.random_k import RandomKConfig
    from dpsim.strategy.compression.ternary import TernaryConfig
    from dpsim.strategy.compression.threshold import ThresholdConfig
    from dpsim.strategy.compression.top_k import TopKConfig, kept

    CompressionConfig = (
        NoCompressionConfig
        | CastConfig
        | Int8Config
        | QsgdConfig
        | TernaryConfig
        | OneBitConfig
        | TopKConfig
        | RandomKConfig
        | ThresholdConfig
        | PowerSgdConfig
    )
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)
    _KINDS = {
        "none": "NoCompressionConfig",
        "cast": "CastConfig",
        "int8": "Int8Config",
        "qsgd": "QsgdConfig",
        "ternary": "TernaryConfig",
        "onebit": "OneBitConfig",
        "top-k": "TopKConfig",
        "random-k": "RandomKConfig",
        "threshold": "ThresholdConfig",
        "powersgd": "PowerSgdConfig",
    }
    CompressionConfig = Annotated[object, Kinds("kind", __name__, _KINDS)]

__all__ = [
    "CastConfig",
    "Codec",
    "CompressedMean",
    "CompressionConfig",
    "Encoded",
    "Floats",
    "Int8Config",
    "NoCompressionConfig",
    "OneBitConfig",
    "PowerSgdConfig",
    "QsgdConfig",
    "RandomKConfig",
    "TernaryConfig",
    "ThresholdConfig",
    "TopKConfig",
    "ceil_div",
    "kept",
]
