"""Sentences from a stated grammar, with wrong labels.

sentence   → greeting subject predicate closing
subject and predicate belong to the topic of the sentence; greeting and closing do not.
"""

import numpy as np
import pandas as pd

GREETINGS = ("Hello,", "Please help:", "Hi there,", "Good morning,", "I write because")
CLOSINGS = ("- what can I do?", "- thank you.", "- please answer soon.", "for the second time.")
SUBJECTS = {
    "delivery": ("my parcel", "the order", "the package", "my shipment"),
    "payment": ("my card", "the invoice", "the transfer", "the refund"),
    "account": ("my password", "the login", "my profile", "the user name"),
}
PREDICATES = {
    "delivery": ("has not arrived", "is three days late", "was left at the wrong door"),
    "payment": ("was charged twice", "does not show up", "was declined"),
    "account": ("does not work", "cannot be changed", "was locked"),
}


def make_messages(rows, wrong=0.15, seed=0):
    """A frame with the columns number, message, topic (the given label) and truth."""
    rng, topics = np.random.default_rng(seed), list(SUBJECTS)
    true = rng.choice(topics, rows, p=(0.5, 0.3, 0.2))
    parts = [(GREETINGS, SUBJECTS[topic], PREDICATES[topic], CLOSINGS) for topic in true]
    given = [
        rng.choice([other for other in topics if other != topic]) if change else topic
        for topic, change in zip(true, rng.random(rows) < wrong, strict=True)
    ]
    return pd.DataFrame(
        {
            "number": [f"M{row:04}" for row in range(rows)],
            "message": [" ".join(rng.choice(part) for part in each) for each in parts],
            "topic": given,
            "truth": true,
        }
    )
