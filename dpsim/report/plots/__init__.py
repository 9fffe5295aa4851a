"""A figure of an answer, as a file of a picture or a page; answers as tables of a notebook."""

__all__: list[str] = []
