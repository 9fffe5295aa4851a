"""A fit of parameters that groups of rows share."""

import numpy as np

from tools.refits.block_fit import Block, fit_blocks

CLUSTER, MODEL = np.repeat([0, 1, 2], 2), np.tile([0, 1], 3)
RATE, COMPUTE = np.array([1.0, 3.0, 10.0]), np.array([0.2, 2.0])
MEASURED = 1 / RATE[CLUSTER] + COMPUTE[MODEL]


def fitted(model, *, elementwise):
    blocks = [
        Block("rate", np.full(3, 2.0), np.full(3, 3.0), CLUSTER),
        Block("compute", np.full(2, 1.0), np.full(2, 3.0), MODEL),
    ]
    return fit_blocks(blocks, model, MEASURED, 0.01, elementwise=elementwise)


def test_an_elementwise_model_is_asked_less_often_and_fitted_to_the_same_values():
    asked = []

    def seconds(values):
        asked.append(values["rate"].shape)
        return 1 / values["rate"] + values["compute"]

    one_by_one = fitted(seconds, elementwise=False)
    assert set(asked) == {(6,)}
    alone = len(asked)
    asked.clear()
    together = fitted(seconds, elementwise=True)
    assert set(asked) == {(6,), (2, 6)}
    assert len(asked) < alone
    for name in ("rate", "compute"):
        np.testing.assert_array_equal(together.values[name], one_by_one.values[name])
    # What is a rate's and what a model's only priors say; their sum the rows do.
    found = 1 / together.values["rate"][CLUSTER] + together.values["compute"][MODEL]
    np.testing.assert_allclose(found, MEASURED, rtol=1e-3)
