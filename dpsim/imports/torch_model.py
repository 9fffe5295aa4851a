"""Profile a torch module, tracing its layers without weights: ``dpsim import torch``."""

from __future__ import annotations

from dpsim.base.provenance import stamp
from dpsim.workload import ModelProfile, import_torch, trace


def profile_torch(factory: str, shape: tuple[int, ...], dtype: str = "float32") -> ModelProfile:
    """Profile the module that ``package.module:factory`` returns, for samples of ``shape``.

    Raises DpsimError.
    """
    model = trace(factory, shape, dtype)
    lengths = ",".join(map(str, shape))
    provenance = {
        "source": f"dpsim import torch {factory} --input {lengths} --dtype {dtype}",
        "torch": str(import_torch().__version__),
        **stamp(),
    }
    return ModelProfile.of(model, provenance)
