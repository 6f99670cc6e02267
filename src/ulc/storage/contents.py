"""The shapes of the JSON files of a run folder; a file of another shape is damaged.

Only keys that some command reads are listed; a file may have more.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

LARGEST = 2**40  # more rows, epochs or threads than any machine has

Row = Annotated[int, Field(ge=0, le=LARGEST)]  # position of a row


class Content(BaseModel):
    """Base class: numbers are finite and not given as text, further keys are allowed."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)


class Data(Content):
    """data.json."""

    examples: int = Field(ge=1, le=LARGEST)
    class_names: list[str] = Field(min_length=1)
    given_sizes: list[int] | None = None
    small_classes: list[int] = []
    skipped: list[str] = []
    warnings: list[str] = []
    unlabelled: int = Field(0, ge=0, le=LARGEST)

    @model_validator(mode="after")
    def _small_classes_exist(self) -> "Data":
        if not all(0 <= each < len(self.class_names) for each in self.small_classes):
            raise ValueError("small_classes names a class that does not exist")
        return self


class Environment(Content):
    """environment.json."""

    threads: int = Field(1, ge=1, le=LARGEST)
    packages: dict[str, str] = {}
    own_code: dict[str, str] = {}


class ClassHealth(Content):
    """A class in health.json."""

    name: str = Field(alias="class")
    size: int
    issues: int
    issue_share: float
    expected_wrong_share: float
    most_suggested: str | None
    predicted: int | None = None
    collapsed: bool = False


class ConfusedPair(Content):
    """A pair of classes in health.json."""

    given: str
    suggested: str
    count: int


class Duplicates(Content):
    """Copies of rows in health.json."""

    groups: int
    rows: int
    conflicts: int


class NearPictures(Content):
    """Almost equal pictures in health.json."""

    groups: int
    rows: int
    conflicts: int


class PoorKind(Content):
    """A kind of poor pictures in health.json."""

    kind: str
    rows: int


class PoorPictures(Content):
    """Poor pictures in health.json."""

    note: str | None = None
    kinds: list[PoorKind] = []


class Health(Content):
    """health.json."""

    labels: int = Field(ge=1, le=LARGEST)
    score_kind: str
    threshold: float = Field(ge=0, le=1)
    issues: int = Field(ge=0)
    issue_share: float
    expected_wrong_share: float
    classes: list[ClassHealth]
    confused_pairs: list[ConfusedPair]
    duplicates: Duplicates | None = None
    near_pictures: NearPictures | None = None
    poor_pictures: PoorPictures | None = None


class Accuracy(Content):
    """Test accuracies with one prior; None: no test set, or no class of this kind."""

    accuracy: float | None = None
    small_accuracy: float | None = None
    large_accuracy: float | None = None


class PriorSummary(Content):
    """The test scores of a run with one prior, in summary.json."""

    best_on_test: float | None = None
    last: Accuracy | None = None


class LabelScores(Content):
    """Scores of finding wrong labels."""

    auc: float | None = None
    precision: float | None = None
    recall: float | None = None
    trusted_correct: float | None = None
    small: "LabelScores | None" = None


class Chosen(Content):
    """The networks that a validation set has chosen, in summary.json."""

    epochs: list[int]
    validation_accuracy: list[float]


class Summary(Content):
    """summary.json."""

    last_epochs: int = Field(ge=1, le=LARGEST)
    kept_epoch: int | None = None
    chosen: Chosen | None = None
    training: PriorSummary | None = None
    balanced: PriorSummary | None = None
    labels: LabelScores | None = None


class AuditData(Content):
    """The data of an audit, in audit.json."""

    source: str
    path: str | None


class AuditTraining(Content):
    """A training of an audit, in audit.json."""

    run: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,255}$")  # the name of a folder, not a path
    held_out_agreement: float
    kept_epoch: int
    warnings: list[str]


class Audit(Content):
    """audit.json."""

    data: AuditData
    noise_rate: float
    noise_interval: list[float] = Field(min_length=2, max_length=2)
    plain: AuditTraining
    ulc_plus: AuditTraining
    why: str
    skipped: list[str] = []


class HeldOut(Content):
    """What an epoch's record says of held-out rows."""

    agreement: float
    likelihood: float | None = None
    signs: list[str] = []


class Validation(Content):
    """What an epoch's record says of a validation set: the accuracy of each network."""

    accuracy: list[float]


class Record(Content):
    """A line of records.jsonl."""

    epoch: int = Field(ge=0, le=LARGEST)
    train: dict[str, float | None]
    test: dict[str, Accuracy] | None = None
    labels: LabelScores | None = None
    groups: dict[str, dict[str, float | None]] | None = None
    held_out: HeldOut | None = None
    validation: Validation | None = None


SHAPES: dict[str, TypeAdapter[Any]] = {
    "data.json": TypeAdapter(Data),
    "environment.json": TypeAdapter(Environment),
    "health.json": TypeAdapter(Health),
    "summary.json": TypeAdapter(Summary),
    "audit.json": TypeAdapter(Audit),
    "records.jsonl": TypeAdapter(list[Record]),
    "ids.json": TypeAdapter(list[str], config=ConfigDict(strict=True)),
    "verified.json": TypeAdapter(list[Row], config=ConfigDict(strict=True)),
}


def checked_content(name: str, content: Any) -> Any:
    """Return the content of the file `name` as it is; raise a ValueError if its shape is wrong.

    A file that is not listed here has a model elsewhere, such as `ModelSpec`.
    """
    shape = SHAPES.get(name)
    if shape is None:
        return content
    try:
        shape.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ValueError(f"'{key}': {first['msg']}" if key else first["msg"]) from None
    return content
