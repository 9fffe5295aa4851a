"""A scenario file whose simulation takes milliseconds.

Six measured layers on four nodes of one GPU, and a slow network.
"""

import pytest

from dpsim.workload import Layer, MeasuredTimes, Model, ModelProfile

ELEMENTS = (3_000, 2_000_000, 60_000, 900_000, 8_000, 400_000)
FORWARD_S = (0.02, 0.03, 0.02, 0.02, 0.04, 0.01)
BACKWARD_S = (0.04, 0.06, 0.04, 0.04, 0.08, 0.02)

TINY = """name: tiny
cluster:
  nodes: {nodes}
  node:
    gpu: {{peak: {{fp32: 1 TFLOP/s}}, memory: {memory}, memory_bandwidth: 3 PB/s}}
    devices: {{gpu: 1, cpu: 1}}
    edges: [{{between: [gpu0, cpu0], link: {{rate: 1 PB/s, latency: 0 s}}}}]
    nic_slots: [cpu0]
    nic_bus: {{rate: 1 PB/s, latency: 0 s}}
    nics: {{link: {{rate: 1 PB/s, latency: 0 s}}}}
  network: {{fabric: single-switch, nic: {{rate: 20 MB/s, latency: 1 ms}}, nics_per_node: 1}}
workload: {{model: {{profile: six-layers.json}}, batch_per_gpu: 8}}
strategy: {{aggregation: {{kind: allreduce, algorithm: tree}}, overlap: {{kind: sequential}}}}
run: {{steps: {steps}, warmup: 0}}
{rest}"""


@pytest.fixture(scope="session")
def write(tmp_path_factory):
    """Writes the scenario into a folder of its own, ``rest`` (YAML) at its end, and answers its
    path.
    """

    def file(nodes=4, memory="16 GB", steps=2, rest=""):
        folder = tmp_path_factory.mktemp("tuned")
        layers = tuple(
            Layer(f"layer{number}", "linear", (count,)) for number, count in enumerate(ELEMENTS)
        )
        times = MeasuredTimes(
            batch_sizes=(8,), forward_s=(FORWARD_S,), backward_s=(BACKWARD_S,), optimizer_s=(0.005,)
        )
        profile = ModelProfile.of(Model("six-layers", layers, "sample", times), {})
        (folder / "six-layers.json").write_text(profile.to_json())
        path = folder / "tiny.yaml"
        path.write_text(TINY.format(nodes=nodes, memory=memory, steps=steps, rest=rest))
        return path

    return file


@pytest.fixture(scope="session")
def tiny(write):
    """The scenario as it is."""
    return write()
