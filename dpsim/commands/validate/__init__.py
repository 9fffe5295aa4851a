"""``dpsim validate``: compare predictions with measurements; one file per command."""

__all__: list[str] = []
