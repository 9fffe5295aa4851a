"""How far dpsim's predictions are from measurements: published tables, and real devices."""

__all__: list[str] = []
