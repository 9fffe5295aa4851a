"""Tables of published step times: one module per table, with its words in a YAML file beside it."""

__all__: list[str] = []
