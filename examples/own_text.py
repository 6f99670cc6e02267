"""Find and correct wrong labels of sentences, then predict new ones.

A grammar makes messages to a shop: greeting, subject and predicate of one of three topics, closing.
15 % of the topics are wrong. Every suggestion is accepted as a decision, as on the report page.

    python own_text.py
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import ulc
from ulc.config import DataSpec

GREETINGS = ["Hello,", "Please help:", "Hi there,", "Good morning,", "I write because"]
CLOSINGS = ["- what can I do?", "- thank you.", "- please answer soon.", "for the second time."]
TOPICS = {  # subjects and predicates
    "delivery": (["my parcel", "the order", "my shipment"], ["has not arrived", "is very late"]),
    "payment": (["my card", "the invoice", "the refund"], ["was charged twice", "is not visible"]),
    "account": (["my password", "the login", "my profile"], ["does not work", "was locked"]),
}


def make_table(path: Path, rows: int) -> "pd.Series[str]":
    """Write the table; return the true labels."""
    rng, topics = np.random.default_rng(0), np.array(list(TOPICS))
    true = rng.choice(len(topics), rows, p=(0.5, 0.3, 0.2))
    parts = [(GREETINGS, *TOPICS[topics[each]], CLOSINGS) for each in true]
    given = (true + (rng.random(rows) < 0.15) * rng.integers(1, 3, rows)) % 3
    messages = [" ".join(rng.choice(part) for part in each) for each in parts]
    pd.DataFrame({"message": messages, "topic": topics[given]}).to_csv(path, index=False)
    return pd.Series(topics[true])


def main() -> None:
    """Make the data, audit them, decide, correct them, predict."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("example_text"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path, corrected_path = arguments.out / "mail.csv", arguments.out / "mail.corrected.csv"

    true = make_table(path, arguments.rows)
    data = DataSpec(source="table", path=str(path), label="topic", text="message")
    run = ulc.audit(data, arguments.out / "audits")
    labels = pd.read_csv(run.path / "labels.csv")
    ulc.apply_decisions(run, labels[labels["is_label_issue"]].assign(decision="accept", label=""),
                        corrected_path)  # fmt: skip
    for name, file in {"before": path, "after": corrected_path}.items():
        wrong = pd.read_csv(file)["topic"] != true
        print(f"wrong labels {name}: {wrong.sum()} of {len(true)}")
    print(run.predict(["the refund is late", "locked out"])["predicted_label"].tolist())


if __name__ == "__main__":
    main()
