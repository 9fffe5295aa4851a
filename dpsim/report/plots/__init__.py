"""A figure of an answer, as a file of a picture or a page, or small in a terminal."""

__all__: list[str] = []
