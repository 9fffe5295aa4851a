"""The support of operations by torch.distributed's backends here, found by trying.

Depends on ranks and collectives; needs torch.
"""

__all__: list[str] = []
