"""A fit of parameters that groups of rows share."""

import numpy as np

from tools.refits.block_fit import Block, fit_blocks

CLUSTER, MODEL = np.repeat([0, 1, 2], 2), np.tile([0, 1], 3)
RATE, COMPUTE = np.array([1.0, 3.0, 10.0]), np.array([0.2, 2.0])
MEASURED = 1 / RATE[CLUSTER] + COMPUTE[MODEL]


def test_rates_and_models_are_fitted_jointly():
    blocks = [
        Block("rate", np.full(3, 2.0), np.full(3, 3.0), CLUSTER),
        Block("compute", np.full(2, 1.0), np.full(2, 3.0), MODEL),
    ]

    def seconds(values):
        return 1 / values["rate"] + values["compute"]

    values = fit_blocks(blocks, seconds, MEASURED, np.full(6, 100.0), 80).values
    # What is a rate's and what a model's only priors say; their sum the rows do.
    found = 1 / values["rate"][CLUSTER] + values["compute"][MODEL]
    np.testing.assert_allclose(found, MEASURED, rtol=1e-3)
