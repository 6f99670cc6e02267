"""Encode one column of sentences as vectors, with the same encoding for new rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ulc.data.columns import to_text
from ulc.data.text.pretrained import PretrainedFeatures
from ulc.data.text.tfidf import TfidfFeatures
from ulc.errors import InputError

FILE = "text.npz"  # in the run folder


@dataclass(frozen=True)
class TextEncoding:
    """How the sentences of a column become vectors.

    column: name of the column
    features: what was fitted or loaded
    """

    column: str
    features: TfidfFeatures | PretrainedFeatures

    @classmethod
    def fit(cls, table: pd.DataFrame, column: str, model: str | None, where: str) -> Self:
        """Fit to the sentences of a column.

        model: tfidf, model2vec:NAME or sentence-transformers:NAME; None: tfidf
        where: name of the table in error messages
        """
        sentences = read_sentences(table, column, where)
        if model is not None and model != TfidfFeatures.name:
            return cls(column, PretrainedFeatures.load(model))
        place = f"{where}: column '{column}'"
        return cls(column, TfidfFeatures.fit(sentences, place))

    def nearly_empty(self, table: pd.DataFrame) -> NDArray[np.bool_]:
        """Return the (N,) mask of the rows without a sentence."""
        return np.array([not each for each in read_sentences(table, self.column, "")], bool)

    def transform(self, table: pd.DataFrame, where: str) -> NDArray[np.float32]:
        """Return (N, D) vectors of the rows of the fitted table or of a new one."""
        return self.features.transform(read_sentences(table, self.column, where))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the content of text.npz."""
        about = {"column": np.array(self.column), "model": np.array(self.features.name)}
        return about | self.features.arrays()

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Read what `arrays` returned; raise a KeyError or ValueError if it is damaged."""
        model = str(arrays["model"])
        if model == TfidfFeatures.name:
            return cls(str(arrays["column"]), TfidfFeatures.read(arrays))
        return cls(str(arrays["column"]), PretrainedFeatures.read(model, arrays))


def read_sentences(table: pd.DataFrame, column: str, where: str) -> list[str]:
    """Return the sentences of a column; a missing one is empty text."""
    if column not in table.columns:
        raise InputError(
            f"{where}: no column '{column}', whose sentences the model learned; add it"
        )
    return [each if isinstance(each, str) else "" for each in to_text(table[column])]
