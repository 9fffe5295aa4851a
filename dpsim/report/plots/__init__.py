"""One figure for an answer, as a file of a picture or a page, and as tables of a notebook."""

__all__: list[str] = []
