"""The pages, one file each; the router lists them."""

__all__: list[str] = []
