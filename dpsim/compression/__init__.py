"""What is done to payloads before they travel: codecs, each with its size, its cost, and the encoding itself."""

from typing import Annotated

from pydantic import Field

from dpsim.compression.cast import CastConfig
from dpsim.compression.codec import Codec, Encoded, Exchanged
from dpsim.compression.exchange import Exchange
from dpsim.compression.int8 import Int8Config
from dpsim.compression.none import NoCompressionConfig
from dpsim.compression.onebit import OneBitConfig
from dpsim.compression.powersgd import PowerSgdConfig
from dpsim.compression.qsgd import QsgdConfig
from dpsim.compression.random_k import RandomKConfig
from dpsim.compression.ternary import TernaryConfig
from dpsim.compression.threshold import ThresholdConfig
from dpsim.compression.top_k import TopKConfig

CompressionConfig = Annotated[
    NoCompressionConfig
    | CastConfig
    | Int8Config
    | QsgdConfig
    | TernaryConfig
    | OneBitConfig
    | TopKConfig
    | RandomKConfig
    | ThresholdConfig
    | PowerSgdConfig,
    Field(discriminator="kind"),
]

__all__ = [
    "CastConfig",
    "Codec",
    "CompressionConfig",
    "Encoded",
    "Exchange",
    "Exchanged",
    "Int8Config",
    "NoCompressionConfig",
    "OneBitConfig",
    "PowerSgdConfig",
    "QsgdConfig",
    "RandomKConfig",
    "TernaryConfig",
    "ThresholdConfig",
    "TopKConfig",
]
