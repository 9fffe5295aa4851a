"""A scenario that takes milliseconds, and sweeps of it."""

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
SWEEP = """{parameters: {
  workload.batch_per_gpu: {values: [16, 1000000]}, strategy.aggregation.kind: {values: [allreduce, gossip]},
  strategy.overlap.kind: {values: [wfbp, priority]}, run.seed: {values: [0, 1]}}}"""
"""16 points: 4 mean nothing, 6 of the others are too large, 6 work."""


def seeds(number):
    """A sweep of so many points, of which no two are alike."""
    return f"{{parameters: {{run.seed: {{values: [{', '.join(map(str, range(number)))}]}}}}}}"
