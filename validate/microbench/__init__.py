"""What a machine's collectives, messages, copies, layers, updates and codecs take.

One file a benchmark. Knows ranks and the collectives that they carry out, and needs torch.
"""

from validate.microbench.benchmark import Benchmark
from validate.microbench.benchmarks import BENCHMARKS
from validate.microbench.layers import profile
from validate.microbench.machine import machine, provenance
from validate.microbench.run_file import RankPlace, RunFile, load_run_file
from validate.microbench.runs import here, launched
from validate.microbench.settings import ALL, LIBRARY, Settings
from validate.microbench.tables import parts

__all__ = [
    "ALL",
    "BENCHMARKS",
    "LIBRARY",
    "Benchmark",
    "RankPlace",
    "RunFile",
    "Settings",
    "here",
    "launched",
    "load_run_file",
    "machine",
    "parts",
    "profile",
    "provenance",
]
