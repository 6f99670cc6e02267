"""Sentences as vectors of a pretrained model of model2vec or sentence-transformers."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError, first_line

Encode = Callable[[list[str]], Any]  # from N sentences to (N, D) vectors
# Family of models: package, class and the method that loads a model by name; None: the class.
FAMILIES = {
    "model2vec": ("model2vec", "StaticModel", "from_pretrained"),
    "sentence-transformers": ("sentence_transformers", "SentenceTransformer", None),
}
PROBE = "A short sentence, to recognise the model again."


@dataclass(frozen=True)
class PretrainedFeatures:
    """A pretrained model by name; only its name and the vector of a probe are stored.

    name: FAMILY:NAME
    probe: (D,) vector of `PROBE`, by which another model of the same name is noticed
    """

    name: str
    probe: NDArray[np.float32]

    @classmethod
    def load(cls, name: str) -> Self:
        """Load the model and encode the probe."""
        return cls(name, encode_sentences(name, [PROBE])[0])

    @property
    def about(self) -> str:
        """The model and its size, for people."""
        return f"{self.name}, {len(self.probe)} numbers"

    def transform(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return (N, D) vectors; raise if the model is not the one of the probe."""
        vectors = encode_sentences(self.name, [PROBE, *sentences])
        if vectors.shape[1] != len(self.probe) or not np.allclose(
            vectors[0], self.probe, atol=1e-2
        ):
            raise InputError(
                f"text model '{self.name}' gives other vectors than in the run; "
                "install the version of the run, or train again"
            )
        return vectors[1:]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store."""
        return {"probe": self.probe}

    @classmethod
    def read(cls, name: str, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Read what `arrays` returned; raise a KeyError if it is damaged."""
        return cls(name, arrays["probe"])


def encode_sentences(name: str, sentences: list[str]) -> NDArray[np.float32]:
    """Return (N, D) vectors of N sentences."""
    vectors = np.asarray(load_encoder(name)(sentences), np.float32)
    if vectors.ndim != 2 or len(vectors) != len(sentences) or not np.isfinite(vectors).all():
        raise InputError(
            f"text model '{name}' gives an array of shape {vectors.shape} for {len(sentences)} "
            "sentences; it must give a row of finite numbers for each"
        )
    return vectors


@lru_cache(maxsize=1)  # one model in memory: it is used for the probe, then for the rows
def load_encoder(name: str) -> Encode:
    """Return the function that encodes sentences with the model FAMILY:NAME."""
    family, _, model = name.partition(":")
    if family not in FAMILIES or not model:
        raise InputError(
            f"unknown text model '{name}'; give tfidf, model2vec:NAME or sentence-transformers:NAME"
        )
    package, kind, loader = FAMILIES[family]
    try:
        found = getattr(importlib.import_module(package), kind)
    except Exception as error:
        # A package that does not fit the installed torch can raise any error.
        raise InputError(
            f"text model '{name}' needs {family}, which cannot be imported here "
            f"({first_line(error)}); pip install {family}"
        ) from error
    try:
        loaded = found(model) if loader is None else getattr(found, loader)(model)
    except Exception as error:
        raise InputError(
            f"text model '{name}' cannot be loaded ({first_line(error)}); "
            "check its name, and that its weights can be downloaded"
        ) from error
    encode: Encode = loaded.encode
    return encode
