"""A job of a few milliseconds on two testbed hosts."""

import json

import pytest


@pytest.fixture(scope="session")
def brief(tmp_path_factory):
    """Writes a scenario and gives its path.

    Two layers of 4 kB; forward 2 and 3 ms, backward 4 and 6 ms, update 1 ms.
    """
    folder = tmp_path_factory.mktemp("brief")
    layers = [{"name": name, "kind": "linear", "parameters": [1000]} for name in ("front", "back")]
    times = {
        "batch_sizes": [8],
        "forward_s": [[0.002, 0.003]],
        "backward_s": [[0.004, 0.006]],
        "optimizer_s": [0.001],
    }
    (folder / "model.json").write_text(
        json.dumps({"name": "brief", "layers": layers, "measured": times})
    )
    path = folder / "brief.yaml"
    path.write_text(
        "name: brief\n"
        "testbed: {hosts: 2, rate: 1 Gbit/s}\n"
        "workload: {model: {profile: model.json}, batch_per_gpu: 8}\n"
        "strategy: {overlap: {kind: sequential}}\n"
        "run: {steps: 6, warmup: 1}\n"
    )
    return str(path)
