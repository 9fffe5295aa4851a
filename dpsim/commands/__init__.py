"""The commands of the command line, one file each; `dpsim.cli` puts them together."""

__all__: list[str] = []
