"""A process that computes features: images come through its input, features go back."""

import os
import pickle
import signal
import sys
from typing import TYPE_CHECKING

import torch

from ulc.embedding.backbones import load_backbone
from ulc.embedding.embed import Embedder
from ulc.errors import InputError

if TYPE_CHECKING:
    from ulc.embedding.pool import Start


def main() -> None:
    """Answer one job after another, until the input ends with the other process.

    The first job is a pickled `Start`, and its answer the fingerprint of the backbone. Every other
    job is an (n, C, H, W) array of images, and its answer their features. An InputError is answered
    by itself.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process decides when to end
    jobs = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library that prints must not disturb
    embedder: Embedder | None = None
    while True:
        try:
            job = pickle.load(jobs)
        except EOFError:
            return
        try:
            if embedder is None:
                embedder = start(job)
                answer: object = embedder.backbone.fingerprint()
            else:
                answer = embedder.run(job)
        except InputError as error:
            answer = error
        try:
            pickle.dump(answer, answers)
            answers.flush()
        except BrokenPipeError:
            os._exit(0)  # the other process has ended; flushing again would print an error


def start(job: "Start") -> Embedder:
    """Load the backbone."""
    torch.set_num_threads(job.threads)
    backbone = load_backbone(job.backbone, size=job.size)
    return Embedder(backbone, None, torch.device(job.device), job.batch_size)


if __name__ == "__main__":
    main()
