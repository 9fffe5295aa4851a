"""Choices as the configuration file of NCCL's example tuner plugin.

Lines of ``collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks``; the
first that matches a call applies (NVIDIA/nccl, ext-tuner/example).
"""

from __future__ import annotations

from dpsim.base.errors import DpsimError
from dpsim.studies.nccl_choices import NcclChoices, SizeChoice

_COLLECTIVES = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "reduce-scatter": "reducescatter",
    "broadcast": "broadcast",
}
_ALGORITHMS = {"nvlstree": "nvls_tree"}
_NCCLS_OWN = -1  # channels: NCCL's own number


def nccl_tuner_text(found: NcclChoices) -> str:
    """Return the file's content. Raises DpsimError for an operation that NCCL does not tune."""
    if found.operation not in _COLLECTIVES:
        raise DpsimError(
            f"operation must be one that NCCL's tuner is asked about ({', '.join(_COLLECTIVES)}), "
            f"but got {found.operation!r}"
        )
    # The plugin reads 255 characters of a line, and treats the rest as the next line.
    lines = [
        f"# {found.operation} of {found.ranks} ranks on {found.nodes} nodes, as dpsim predicts it",
        "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks",
    ]
    for row in found.rows:
        lines += [f"# {_why(row)}", _line(found, row)]
    return "\n".join(lines) + "\n"


def _line(found: NcclChoices, row: SizeChoice) -> str:
    algorithm = _ALGORITHMS.get(row.algorithm, row.algorithm)
    fields = (
        _COLLECTIVES[found.operation],
        row.smallest,
        row.largest,
        algorithm,
        row.protocol.lower(),
        _NCCLS_OWN,
        found.nodes,
        found.ranks,
    )
    return ",".join(map(str, fields))


def _why(row: SizeChoice) -> str:
    if row.gain == 0:
        return f"{row.nccl}: NCCL's own choice"
    return f"up to {row.gain:.0%} less time than by {row.nccl}, NCCL's own choice"
