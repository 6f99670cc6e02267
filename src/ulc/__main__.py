"""`python -m ulc` is `ulc`."""

from ulc.cli import main

if __name__ == "__main__":
    main()
