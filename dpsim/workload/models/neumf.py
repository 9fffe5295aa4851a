"""NeuMF (He et al. 2017): a score for a user and an item.

One pair of embeddings is multiplied, another passes a small network. 31,832,577 parameters on
MovieLens 20M as in NVIDIA's and MLPerf's versions, almost all in the tables.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


def neumf(name: str, users: int, items: int, factors: int, widths: tuple[int, ...]) -> Model:
    """Build NeuMF: ``factors`` in the product; network ``widths``, from its two embeddings on."""
    b = Builder((1,))
    for part, width in (("mf", factors), ("mlp", widths[0] // 2)):
        for table, entries in (("user", users), ("item", items)):
            b.shape = (1,)
            b.embedding(f"{part}_{table}_embed", entries, width)
    b.shape = (1, factors)
    # An element-wise product, with the traffic of a sum.
    b.add("mf.product", kept=True)
    b.shape = (1, widths[0])
    b.activation("mlp.cat", kept=True)
    for index, width in enumerate(widths[1:]):
        b.linear(f"mlp.{index}", width)
        b.activation(f"mlp.{index}.relu")
    b.shape = (1, factors + widths[-1])
    b.activation("cat", kept=True)
    b.linear("final", 1)
    return b.build(name, "user and item")
