"""A process that decodes images: jobs come through its input, pixels go through its output.

It imports no torch, so it starts fast and stays small.
"""

import os
import pickle
import signal
import sys

from ulc.data.sources.pictures import decode_pictures


def main() -> None:
    """Decode the images of one job after another, until the input ends with the other process.

    A job is a pickled pair (pictures, size). The answer is the pickled reasons of broken images,
    then the (B, H, W, 3) bytes of the pixels.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process decides when to end
    jobs = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library that prints must not disturb
    while True:
        try:
            pictures, size = pickle.load(jobs)
        except EOFError:
            return
        pixels, broken = decode_pictures(pictures, size)
        try:
            pickle.dump(broken, answers)
            answers.write(pixels.data)
            answers.flush()
        except BrokenPipeError:
            os._exit(0)  # the other process has ended; flushing again would print an error


if __name__ == "__main__":
    main()
