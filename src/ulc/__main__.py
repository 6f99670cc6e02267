"""`ulc`, and `python -m ulc`."""

import os
import sys
from pathlib import Path

from ulc.stopping import exit_at_signals


def main() -> None:
    """Run the command; it can be stopped while its modules are imported."""
    with exit_at_signals():
        from ulc.cli import main

        main()


if __name__ == "__main__":
    if sys.path[0] == str(Path.cwd()) and not os.environ.get("PYTHONPATH"):
        del sys.path[0]  # Python puts the working folder there: modules of it would hide others
    main()
