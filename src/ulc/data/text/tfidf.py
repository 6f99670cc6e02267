"""Sentences as vectors without pretrained weights: TF-IDF, then truncated SVD."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from ulc.errors import InputError
from ulc.typing import Floats

# What is counted in a sentence: words with pairs of words, and parts of words, which recognise
# spelling variants and endings.
TERMS: dict[str, dict[str, Any]] = {
    "words": {"analyzer": "word", "ngram_range": (1, 2)},
    "parts": {"analyzer": "char_wb", "ngram_range": (3, 5)},
}
MOST_TERMS = 10_000  # of each kind: the most frequent ones
# Numbers per sentence: one for every 40 sentences. More of them let a model learn few sentences by
# heart, wrong labels included.
FEWEST_COMPONENTS, MOST_COMPONENTS, SENTENCES_PER_COMPONENT = 16, 128, 40
FEW = 50  # sentences; with fewer, terms of a single sentence count too
SEED = 0
ALIKE = 1e-5  # largest difference between the numbers of sentences that are alike


@dataclass(frozen=True)
class Terms:
    """The terms of one kind that are counted, and the weight of each.

    kind: a key of `TERMS`
    names: the V terms, in the order of the columns
    idf: (V,) inverse document frequencies
    """

    kind: str
    names: tuple[str, ...]
    idf: Floats

    @classmethod
    def fit(cls, kind: str, sentences: Sequence[str]) -> Self | None:
        """Find the most frequent terms; None: there are none."""
        least = 1 if len(sentences) < FEW else 2
        vectorizer = make_vectorizer(kind, min_df=least, max_features=MOST_TERMS)
        try:
            vectorizer.fit(sentences)
        except ValueError:  # scikit-learn's error for an empty vocabulary
            return None
        idf = np.asarray(vectorizer.idf_, np.float32)
        return cls(kind, tuple(vectorizer.get_feature_names_out()), idf)

    def check(self) -> None:
        """Raise a ValueError unless every term has one name and one weight."""
        if len(set(self.names)) < len(self.names) or self.idf.shape != (len(self.names),):
            raise ValueError(f"the names and weights of its {self.kind} do not fit")
        check_finite(self.idf)

    def count(self, sentences: Sequence[str]) -> Any:
        """Return the (N, V) sparse TF-IDF matrix; each row has length 1, or 0 without any term."""
        vectorizer = make_vectorizer(self.kind, vocabulary=self.names)
        vectorizer.idf_ = self.idf.astype(np.float64)
        return vectorizer.transform(sentences)


def make_vectorizer(kind: str, **options: Any) -> TfidfVectorizer:
    """Return scikit-learn's vectorizer for one kind of terms."""
    return TfidfVectorizer(sublinear_tf=True, **TERMS[kind], **options)


@dataclass(frozen=True)
class TfidfFeatures:
    """Fitted TF-IDF and SVD.

    terms: one or two kinds of terms, whose columns stand side by side
    components: (D, V) directions of the SVD, for the V columns of all terms
    """

    terms: tuple[Terms, ...]
    components: NDArray[np.float32]

    name = "tfidf"

    @classmethod
    def fit(cls, sentences: Sequence[str], where: str) -> Self:
        """Fit to N sentences; `where` names the column in the error for a column without words."""
        found = [Terms.fit(kind, sentences) for kind in TERMS]
        terms = tuple(each for each in found if each is not None)
        width = sum(len(each.names) for each in terms)
        wanted = max(FEWEST_COMPONENTS, len(sentences) // SENTENCES_PER_COMPONENT)
        size = min(MOST_COMPONENTS, wanted, width, len(sentences) - 1)
        if size < 1:
            raise InputError(
                f"{where}: its sentences hold no words that recur; name another column"
            )
        counted = count_terms(terms, sentences)
        with np.errstate(divide="ignore", invalid="ignore"):  # if all sentences are alike
            svd = TruncatedSVD(size, random_state=SEED).fit(counted)
        fitted = cls(terms, svd.components_.astype(np.float32))
        if np.ptp(fitted.transform(sentences), axis=0).max() < ALIKE:
            raise InputError(
                f"{where}: its sentences do not differ in words that recur; name another column"
            )
        return fitted

    @property
    def about(self) -> str:
        """The method and its size, for people."""
        width = self.components.shape[1]
        return f"TF-IDF of {width} words and parts of words, {len(self.components)} SVD components"

    def transform(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return (N, D) vectors; a sentence without any known term becomes zeros."""
        vectors = count_terms(self.terms, sentences) @ self.components.T
        return np.asarray(vectors, np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store."""
        content = {"components": self.components}
        for each in self.terms:
            # As bytes, because one long term would widen all entries of an array of texts.
            packed = "\n".join(each.names).encode(errors="surrogatepass")
            content[f"{each.kind}_names"] = np.frombuffer(packed, np.uint8)
            content[f"{each.kind}_idf"] = each.idf
        return content

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Read what `arrays` returned; raise a KeyError or ValueError if it is damaged."""
        terms = []
        for kind in TERMS:
            if f"{kind}_names" in arrays:
                packed = arrays[f"{kind}_names"].tobytes()
                names = packed.decode(errors="surrogatepass").split("\n")
                terms.append(Terms(kind, tuple(names), arrays[f"{kind}_idf"]))
                terms[-1].check()
        if not terms:
            raise ValueError("it has no terms")
        components = arrays["components"]
        check_finite(components)
        if components.ndim != 2 or components.shape[1] != sum(len(each.idf) for each in terms):
            raise ValueError(f"components have shape {components.shape}")
        return cls(tuple(terms), components)


def check_finite(numbers: NDArray[Any]) -> None:
    """Raise a ValueError unless all numbers are finite."""
    if numbers.dtype.kind != "f" or not np.isfinite(numbers).all():
        raise ValueError("a weight is no finite number")


def count_terms(terms: Sequence[Terms], sentences: Sequence[str]) -> Any:
    """Return the sparse TF-IDF matrix of all terms, with (N, V) entries."""
    return sparse.hstack([each.count(sentences) for each in terms], format="csr")
