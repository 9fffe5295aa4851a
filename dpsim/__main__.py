"""``python -m dpsim`` is ``dpsim``."""

from dpsim.cli import main

if __name__ == "__main__":
    main()
