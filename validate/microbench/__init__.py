"""Microbenchmarks of collectives, messages, copies, layers, updates and codecs.

One file per benchmark. Depends on ranks and their collectives, and needs torch.
"""

from validate.microbench.benchmark import Benchmark
from validate.microbench.benchmarks import BENCHMARKS, run_benchmarks
from validate.microbench.layers import UPDATE, profile
from validate.microbench.machine import machine, provenance
from validate.microbench.models import FACTORY_OF, subject
from validate.microbench.precision import FORMATS, casting, computing_in, products_in
from validate.microbench.run_file import RankPlace, RunFile, load_run_file
from validate.microbench.runs import here, launched, place_of
from validate.microbench.settings import ALL, LIBRARY, Settings
from validate.microbench.software import (
    OPTIMIZER_CLASSES,
    Words,
    executed,
    images,
    laid_out,
    omitted,
    optimizer_words,
)
from validate.microbench.tables import parts
from validate.microbench.torch_codecs import TorchEncoded, decode, encode

__all__ = [
    "ALL",
    "BENCHMARKS",
    "FACTORY_OF",
    "FORMATS",
    "LIBRARY",
    "OPTIMIZER_CLASSES",
    "UPDATE",
    "Benchmark",
    "RankPlace",
    "RunFile",
    "Settings",
    "TorchEncoded",
    "Words",
    "casting",
    "computing_in",
    "decode",
    "encode",
    "executed",
    "here",
    "images",
    "laid_out",
    "launched",
    "load_run_file",
    "machine",
    "omitted",
    "optimizer_words",
    "parts",
    "place_of",
    "products_in",
    "profile",
    "provenance",
    "run_benchmarks",
    "subject",
]
