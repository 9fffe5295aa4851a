"""``python -m dpsim``: the command line."""

from dpsim.cli import main

if __name__ == "__main__":
    main()
