"""The error for a user's mistake, and the short form of any error."""


class InputError(ValueError):
    """A user's mistake; the message is one sentence that names the mistake and the remedy."""


def first_line(error: BaseException) -> str:
    """Return the first line of the error's message; without a message, the name of its class."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
