"""Published times of collectives compared with the models of NCCL."""

__all__: list[str] = []
