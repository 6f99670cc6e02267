"""The one kind of error a user can cause."""


class InputError(ValueError):
    """Something the user gave is wrong: one sentence that names it and the remedy."""
