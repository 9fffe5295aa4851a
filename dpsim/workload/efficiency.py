"""How much of a GPU's peak a layer reaches: a few constants, and how far they can be trusted.

Fitted (robust least squares of log ratios; each case of GPU, model and precision weighs the same) to 150 one-GPU
training steps of ResNet-50/152, VGG-16, AlexNet, Inception-v3 and BERT on P100, V100, A100, H100 and three desktop GPUs, of
good quality in the reference table `single_gpu.csv`. On these very rows the step is off by 13 % in the median, 18 % on average,
60 % at the 95th percentile and 86 % at worst; the 53 PyTorch rows by 12 %, 13 %, 29 % and 36 %. The worst are TensorFlow and
MXNet in mixed precision with fused kernels, up to 1.8 times as fast as PyTorch on the same GPU and faster than predicted. With
each model left out of the fit in turn the median is 24 % (VGG-16 worst, 37 %).

Left out of the fit: the 15 rows of the K80, which are about half as fast as this predicts (46 % in the median); rows with host or
input costs in them; and, after a first fit had shown them as outliers, four of BERT-large at 512 tokens (PyTorch 21.11), that run
in less than half of the predicted time: one would be above the V100's peak, the other three are doubted with it.
The launch overhead is a typical figure: these rows, of large batches, do not tell it from the ramp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpsim.workload.layer import Kind


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Constants of the roofline.

    ``scalar`` (fp32) and ``tensor`` (tf32, fp16, bf16) are the fractions of peak that large products of a kind of layer
    reach; ``ramp`` is the seconds that a product would take at peak when it reaches half of that fraction; ``memory`` is the
    achievable fraction of memory bandwidth; ``launch`` is seconds per kernel.
    """

    scalar: Mapping[Kind, float]
    tensor: Mapping[Kind, float]
    ramp: float
    memory: float
    launch: float

    def large(self, kind: Kind, precision: str) -> float:
        """Fraction of peak that a large product reaches; 1 for a kind that has no constant of its own."""
        return (self.scalar if precision == "fp32" else self.tensor).get(kind, 1.0)


# fp32 convolutions reach the peak in direct FLOP because Winograd's algorithm does the 3x3 ones with fewer.
FITTED = Efficiency(
    scalar={"conv": 1.0, "linear": 0.80, "attention": 0.80},
    tensor={"conv": 0.37, "linear": 0.60, "attention": 0.60},
    ramp=40e-6,
    memory=0.62,
    launch=8e-6,
)
