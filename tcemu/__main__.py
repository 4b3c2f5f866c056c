"""``python -m tcemu``: the command line."""

from tcemu.cli import main

if __name__ == "__main__":
    main()
