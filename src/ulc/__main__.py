"""`ulc`, and `python -m ulc`."""

from ulc.stopping import exit_at_signals


def main() -> None:
    """Run the command; it can be stopped while its modules are imported."""
    with exit_at_signals():
        from ulc.cli import main

        main()


if __name__ == "__main__":
    main()
