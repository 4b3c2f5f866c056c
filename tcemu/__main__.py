"""``python -m tcemu``: the command line."""

import io
import sys

#: The exit code of a command that Ctrl + C ended: 128, as shells count, and the number of the signal.
INTERRUPTED = 130


def main() -> None:
    """Load the command line, and run it; Ctrl + C ends both without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a file or pipe of Windows, cp1252 say, lacks letters that names have
    try:
        from tcemu import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
