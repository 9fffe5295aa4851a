"""DLRM (Naumov et al. 2019): pairwise products of category embeddings and a small network.

``dlrm`` is the reference model for Criteo's Kaggle set, ``dlrm-terabyte`` MLPerf's for the terabyte
set, whose tables do not fit on a GPU. Gradients of tables are dense, as data parallelism sends
them.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_NUMBERS = 13  # numerical features
_KAGGLE = (
    1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194, 27,
    14_992, 5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
)  # fmt: skip
# Limited to 40 M rows each.
_TERABYTE = (
    39_884_406, 39_043, 17_289, 7420, 20_263, 3, 7120, 1543, 63, 38_532_951, 2_953_546, 403_346, 10,
    2208, 11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36,
)  # fmt: skip


def dlrm(
    name: str, below: tuple[int, ...], above: tuple[int, ...], *, terabyte: bool = False
) -> Model:
    """Build DLRM, given the widths of the networks ``below`` and ``above`` the pair products."""
    tables = _TERABYTE if terabyte else _KAGGLE
    b = Builder((_NUMBERS,))
    _network(b, "bot_l", below)
    width = below[-1]
    for index, entries in enumerate(tables):
        b.shape = (1,)
        b.embedding(f"emb_l.{index}", entries, width)
    b.shape = (len(tables) + 1, width)
    b.activation("cat", kept=True)
    b.pair_products("interact")
    b.shape = (b.size + width,)
    b.activation("interact.cat", kept=True)
    _network(b, "top_l", above)
    return b.build(name, "click")


def _network(b: Builder, name: str, widths: tuple[int, ...]) -> None:
    for index, width in enumerate(widths):
        b.linear(f"{name}.{index}", width)
        b.activation(f"{name}.{index}.act")
