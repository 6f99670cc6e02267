"""The error for a user's mistake, and the short form of any error."""


class InputError(ValueError):
    """Something the user gave is wrong: one sentence that names it and the remedy."""


def first_line(error: BaseException) -> str:
    """The first line of the error's message; if the message is empty, the name of its class."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
