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

    CompressionConfig = Codec
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)
    # As they are listed; a new one is found by the name of its file.
    _ORDER = (
        "none",
        "cast",
        "int8",
        "qsgd",
        "ternary",
        "onebit",
        "top-k",
        "random-k",
        "threshold",
        "powersgd",
    )
    CompressionConfig = Annotated[object, Kinds("kind", __name__, _ORDER)]

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
