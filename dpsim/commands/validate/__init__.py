"""``dpsim validate``: predictions beside measurements; one file a command."""

__all__: list[str] = []
