"""A run for Python programs: its results, its model, and predictions for new data."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulc.config import DataSpec, RunSpec, checked
from ulc.data.sources.naming import data_spec
from ulc.errors import InputError
from ulc.importing import Trust
from ulc.labels.judgement import Judgement
from ulc.labels.prior import Prior
from ulc.labels.review import find_review, review_columns
from ulc.storage.run_folder import Records, RunFolder
from ulc.training.model import Model

if TYPE_CHECKING:
    from pandas import DataFrame

    from ulc.prediction.input_spec import ModelInput
    from ulc.prediction.new_rows import NewRows


class Run:
    """The results in a run folder; each attribute is read from its file at every access.

    trust: whether code outside the package that the folder's files name may run
    """

    def __init__(self, folder: RunFolder, *, trust: Trust = False) -> None:
        self.folder = folder
        self.trust = trust

    @property
    def path(self) -> Path:
        """The folder's path."""
        return self.folder.path

    @property
    def spec(self) -> RunSpec:
        """All settings of the run."""
        return self.folder.spec

    @property
    def records(self) -> Records:
        """One record for each epoch."""
        return self.folder.records

    @property
    def judgement(self) -> Judgement:
        """The algorithm's opinion on every training label."""
        return self.folder.judgement

    @property
    def summary(self) -> dict[str, Any]:
        """Mean scores of the last epochs, and scores of the best epoch."""
        summary: dict[str, Any] = self.folder.read_json("summary.json")
        return summary

    @property
    def model(self) -> Model:
        """The trained model."""
        return Model.load(self.folder, trust=self.trust)

    def review(self, count: int) -> "DataFrame":
        """Return the labels most worth a look: the `count` lowest scores, the lowest first.

        The columns are those of labels.csv and `expected_errors`, the number of errors to expect
        from the first row to this one (the sum of 1 − score). Labels that a person has checked are
        left out.
        """
        from pandas import DataFrame

        return DataFrame(review_columns(self.folder, find_review(self.folder, count)))

    def predict(
        self,
        data: Any,
        *,
        labels: Sequence[Any] | None = None,
        prior: Prior = "training",
        probabilities: bool = False,
        device: str = "auto",
        **options: Any,
    ) -> "DataFrame":
        """Predict new data; return the table that `ulc predict` writes, one row for each input.

        data: a path, as for the command; a data frame with the columns that the run learned from;
            an array of vectors or of uint8 images; or a list of sentences
        labels: labels to score if `data` is an array; a path or a frame has a column for them
        prior: class frequencies to assume in the new data
        probabilities: add a column with the probability of each class
        options: label, image, id, skip_broken, as for the command
        """
        from ulc.prediction.predictor import Predictor
        from ulc.prediction.table import prediction_frame
        from ulc.training.device import choose_device

        predictor = Predictor.open(self.folder, choose_device(device), trust=self.trust)
        rows = read_new_rows(data, labels, predictor.model_input, options)
        return prediction_frame(predictor.predict(rows, prior=prior), probabilities=probabilities)


def read_new_rows(
    data: Any, labels: Sequence[Any] | None, model_input: "ModelInput", options: dict[str, Any]
) -> "NewRows":
    """Read new rows from a path, a data frame or an array."""
    from ulc.prediction.new_rows import NewTable, load_new_rows, rows_from_array, rows_from_frame

    is_array = not isinstance(data, str | Path) and not hasattr(data, "iloc")
    if not is_array and labels is not None:
        raise InputError(
            "labels= is only for an array; for a path or a frame, name the column with label="
        )
    if is_array and options:
        raise InputError(
            f"'{min(options)}' is not for an array; drop it, and give labels of an array as labels="
        )
    if isinstance(data, str | Path):
        return load_new_rows(data_spec(str(data), options), model_input)
    if hasattr(data, "iloc"):
        spec = checked(DataSpec, {"source": "table"} | options, where="options")
        table = data.reset_index(drop=True).set_axis(data.columns.map(str), axis=1)
        return rows_from_frame(NewTable("data", table, Path()), spec, model_input)
    if model_input.text is not None:
        import pandas as pd

        table = pd.DataFrame({model_input.text.column: list(data)})
        if labels is not None:
            table["label"] = list(labels)
        return rows_from_frame(
            NewTable("data", table, Path()), DataSpec(source="table"), model_input
        )
    return rows_from_array(data, model_input, labels)
