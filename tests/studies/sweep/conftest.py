"""A scenario that takes milliseconds, and files of many such."""

import pytest

TINY = """name: tiny
cluster:
  nodes: 2
  node: dgx1-v100
  gpus_per_node: 1
  network: {fabric: single-switch, nic: 25GbE, nics_per_node: 1}
workload: {model: alexnet, batch_per_gpu: 64}
strategy: {aggregation: {kind: allreduce, algorithm: ring}}
disturbance: {jitter: {kind: lognormal, sigma: 0.05}}
run: {steps: 3, warmup: 0}
"""


@pytest.fixture
def write(tmp_path):
    """Writes the tiny scenario, with a sweep of its own (YAML in one line), and answers the path."""

    def file(sweep="", name="tiny.yaml", text=TINY):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + (f"sweep: {sweep}\n" if sweep else ""))
        return path

    return file


def seeds(number):
    """A sweep of so many points, of which no two are alike."""
    return f"{{parameters: {{run.seed: {{values: [{', '.join(map(str, range(number)))}]}}}}}}"
