"""Point at data: train plainly and with ULC, judge every label, hand over the better model.

An audit does no harm: ULC's model is handed over only where it predicts more of the given labels
of rows that nobody learned from than the plain model does. No true label is asked.
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.algorithms import configure
from ulc.auditing import choices
from ulc.auditing.cross_fit import FOLDS, out_of_fold
from ulc.auditing.spec import AuditProgress, AuditSpec, Choice
from ulc.config import DataSpec, RunSpec
from ulc.data.prepare import Prepared, prepare
from ulc.data.sources import load_source
from ulc.data.sources.source import Source
from ulc.data.truth import small_classes
from ulc.embedding.backbones import load_backbone
from ulc.embedding.embed import Embedder, check_images, embed
from ulc.errors import InputError
from ulc.evaluation.judgement_scores import score_judgement
from ulc.labels.confusion import ConfusionModel
from ulc.labels.files import LabelFiles
from ulc.labels.judgement import Judgement
from ulc.networks import network_maker
from ulc.storage.files import read_npz
from ulc.storage.run_folder import Records, RunFolder, create_folder
from ulc.training.device import choose_device
from ulc.training.model import Model
from ulc.training.run import run
from ulc.typing import Floats, Integers

THRESHOLD = 0.5  # a label that is likelier wrong than right is doubted
BY_HEART = 0.75  # of the held-out labels that are not predicted, so many would be if learned
LITTLE = 0.05  # so small a difference between learned and held-out labels says nothing
CHANCE = 1.64  # standard errors that chance exceeds once in twenty
SOME_NOISE = 0.1  # so many labels wrong, and plain training suffers
MOST_FITTED, FEWEST_FITTED = 500_000, 2_000  # probabilities, rows that the noise is fitted to
HANDED_ON = (
    "environment.json", "data.json", "ids.json", "encoding.json", "embedding.npz",
    "records.jsonl", "model.safetensors", "model.json",
)  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """A run with rows held out, and what its model says of them."""

    folder: RunFolder
    probability: Floats
    given: Integers

    @property
    def hits(self) -> NDArray[np.bool_]:
        """(V,) the held-out rows whose given label is predicted."""
        return self.probability.argmax(1) == self.given

    @property
    def agreement(self) -> float:
        """Share of the held-out rows whose given label is predicted."""
        return float(self.hits.mean())

    @property
    def summary(self) -> dict[str, Any]:
        """What audit.json says of it."""
        records = self.folder.records
        signs = [
            f"epoch {record['epoch']}: {sign}"
            for record in records
            for sign in record["held_out"].get("signs", ())
        ]
        return {
            "run": self.folder.path.name,
            "held_out_agreement": self.agreement,
            "kept_epoch": self.folder.read_json("summary.json")["kept_epoch"],
            "epochs": len(records),
            "warnings": signs,
        }


def audit(
    spec: AuditSpec,
    out: Path,
    *,
    device: str = "auto",
    progress: AuditProgress | None = None,
) -> RunFolder:
    """Audit the data of `spec` in a folder of its own under `out`; a finished one is only read.

    An audit that was stopped goes on where it was.
    """
    path = out / spec.folder_name
    if (path / "done").is_file():
        return RunFolder.open(path)
    return Audit(spec, path, device, progress or AuditProgress()).run()


class Audit:
    """One audit on its way."""

    def __init__(self, spec: AuditSpec, path: Path, device: str, progress: AuditProgress) -> None:
        self.spec = spec
        self.device = choose_device(device)
        self.progress = progress
        self.path = path
        self.made: list[Choice] = []
        self.by_heart = False

    def run(self) -> RunFolder:
        """All of it: read, choose, train plainly, train ULC, judge, hand over."""
        with self.progress.reading() as seen:
            source = load_source(self.spec.data, seen)
        backbone, choice = choices.embedding(self.spec, source, self.device)
        self.say(choice)
        # What can be wrong with the settings is found before anything is written.
        configure("ulc", self.spec.options)
        embedder = None if backbone is None else self.embedder(source, backbone)
        if embedder is None:
            shape = source.inputs.shape[1:]
            network_maker(self.spec.network, shape, len(source.class_names), self.device)
        folder = create_folder(self.path)
        with folder.locked():
            folder.write("audit.toml", self.spec.write().encode())
            data = self.spec.data
            if embedder is not None:
                data, source = self.embedded(source, embedder)
            plain_spec, ulc_spec = self.specs(data, source)
            prepared = prepare(plain_spec, self.device, source=source)
            plain = self.train("plain training", plain_spec, prepared)
            elsewhere = self.out_of_fold(folder, plain, prepared)
            noise = ConfusionModel.fit(*some(elsewhere, source.labels))
            rate = noise.noise_rate(elsewhere, source.labels)
            ulc_spec, choice = choices.by_noise(ulc_spec, self.spec, rate)
            self.say(choice)
            ulc = self.train("ULC", ulc_spec, prepared)
            judged = self.judged(folder, elsewhere, ulc, prepared)
            self.hand_over(folder, judged, plain, ulc, source, prepared, elsewhere)
        return folder

    def say(self, choice: Choice) -> None:
        """Note a choice."""
        self.made.append(choice)
        self.progress.chosen(choice)

    def embedder(self, source: Source, backbone: str) -> Embedder:
        """The frozen network that images go through; audits in one place share its work."""
        check_images(source)
        return Embedder(load_backbone(backbone), self.path.parent / "embedded", self.device)

    def embedded(self, source: Source, embedder: Embedder) -> tuple[DataSpec, Source]:
        """The images as features of a frozen network, in a file of the audit's own."""
        file = self.path / "features.npz"
        with self.progress.embedding(embedder.backbone.name) as seen:
            embed(source, embedder, on_progress=seen).write(file)
        data = DataSpec(source="npz", path=str(file.absolute()))
        return data, replace(load_source(data), skipped=source.skipped)

    def specs(self, data: DataSpec, source: Source) -> tuple[RunSpec, RunSpec]:
        """The two trainings, before the noise is known."""
        share, choice = choices.held_out(self.spec, len(source.labels))
        self.say(choice)
        network, choice = choices.network(self.spec, source, self.device)
        self.say(choice)
        plain, ulc, choice = choices.trainings(self.spec, source, share)
        self.say(choice)
        common = {"data": data, "network": network, "seed": self.spec.seed, "held_out": share}
        return plain.model_copy(update=common), ulc.model_copy(update=common)

    def train(self, title: str, spec: RunSpec, prepared: Prepared) -> Trained:
        """A run below the audit's folder, and its predictions for the rows it held out."""
        folder = self.trained(title, spec, prepared)
        if prepared.held_out is None:
            raise InputError("an audit needs rows that are held out")
        model = Model.load(folder)
        probability = model.predict_stored(prepared.held_out.stored.cpu())
        return Trained(folder, probability, prepared.held_out.given.cpu().numpy())

    def trained(self, title: str, spec: RunSpec, prepared: Prepared) -> RunFolder:
        """A run below the audit's folder, finished now or before."""
        with self.progress.training(title, spec.epochs) as progress:
            runs = self.path / "runs"
            return run(spec, runs, device=str(self.device), progress=progress, prepared=prepared)

    def out_of_fold(self, folder: RunFolder, plain: Trained, prepared: Prepared) -> Floats:
        """Plain predictions for every row, by models that did not learn from it."""
        if folder.has("out_of_fold.npz"):
            return stored_probability(folder, prepared)
        spec = spec_on_all(plain, epochs=likeliest_epoch(plain.folder.records) + 1)
        with self.progress.training("out of fold", FOLDS * spec.epochs) as progress:
            probability = out_of_fold(spec, prepared, self.device, progress)
        folder.write_arrays("out_of_fold.npz", {"probability": probability})
        return probability

    def judged(
        self, folder: RunFolder, elsewhere: Floats, ulc: Trained, prepared: Prepared
    ) -> LabelFiles:
        """Every label, by plain predictions out of fold and ULC's together.

        ULC learns from the rows that it judges, and has only that fault; the other way round the
        plain models, which learn from wrong labels as if they were right. Where ULC has learned
        the labels by heart, its word does not count.
        """
        judgement = ulc.folder.judgement
        self.by_heart = learned_by_heart(judgement, prepared.learned, ulc)
        together = elsewhere if self.by_heart else mean_of(elsewhere, judgement.prediction)
        judgement = replace(judgement, prediction=together)
        noise = ConfusionModel.fit(*some(together, judgement.given))
        folder.write_json("confusion.json", noise.model_dump(mode="json"))
        return LabelFiles(
            judgement.with_posterior(noise.posterior(together, judgement.given)),
            prepared.class_names,
            THRESHOLD,
            prepared.ids,
            prepared.verified,
            prepared.all_rows.stored.cpu().numpy(),
        )

    def write_summary(
        self, folder: RunFolder, handed: RunFolder, judged: LabelFiles, source: Source
    ) -> None:
        """Of the model what its run said; of the labels what this table says."""
        summary = handed.read_json("summary.json")
        if source.true is not None:
            small = small_classes(source.true, len(source.class_names))
            summary["labels"] = score_judgement(judged.believed, source.true, small, THRESHOLD)
        folder.write_json("summary.json", summary)

    def hand_over(  # noqa: PLR0913 (all that the audit has come to)
        self,
        folder: RunFolder,
        judged: LabelFiles,
        plain: Trained,
        ulc: Trained,
        source: Source,
        prepared: Prepared,
        elsewhere: Floats,
    ) -> None:
        """Choose the model, and write it all."""
        rate = float(1 - judged.believed.clean_probability.mean())
        better = ulc if is_better(ulc, plain, rate) else plain
        handed = ulc.folder
        if better is plain:
            all_rows = prepared.with_all_rows()
            handed = self.trained("plain training on all rows", spec_on_all(plain), all_rows)
        for name in HANDED_ON:
            if handed.has(name):
                folder.write(name, handed.read(name))
        spec = handed.spec.model_copy(update={"data": self.spec.data})
        folder.write("spec.toml", spec.write().encode())
        judged.write(folder)
        self.write_summary(folder, handed, judged, source)
        noise = ConfusionModel.fit(better.probability, better.given)
        if better is plain:  # what models like the one handed over say of rows they did not see
            noise = ConfusionModel.fit(*some(elsewhere, source.labels))
        folder.write_json("noise.json", noise.model_dump(mode="json"))
        folder.write_json(
            "audit.json",
            {
                "format": 1,
                "data": self.spec.data.model_dump(mode="json"),
                "choices": [vars(choice) for choice in self.made],
                "noise_rate": rate,
                "held_out": len(ulc.given),
                "plain": plain.summary,
                "ulc": ulc.summary,
                "judged_by": "plain training" if self.by_heart else "plain training and ULC",
                "handed_over": "ulc" if better is ulc else "ce",
                "why": reason(plain, ulc, rate),
            }
            | ({"skipped": list(source.skipped)} if source.skipped else {}),
        )
        folder.finish()


def stored_probability(folder: RunFolder, prepared: Prepared) -> Floats:
    """What was predicted out of fold before the audit was stopped."""
    name = "out_of_fold.npz"
    try:
        probability: Floats = read_npz(folder.path / name)["probability"]
    except (KeyError, ValueError) as error:
        raise folder.damaged(name, error) from None
    if probability.shape != (len(prepared.all_rows), len(prepared.class_names)):
        raise InputError(f"{folder.path}: the data have changed since; audit anew with --fresh")
    return probability


def likeliest_epoch(records: Records) -> int:
    """The epoch that explains the held-out labels best, noise and all.

    Agreement alone would hardly see a plain model learn wrong labels by heart.
    """
    best = max(records, key=lambda record: record["held_out"]["likelihood"])
    epoch: int = best["epoch"]
    return epoch


def spec_on_all(plain: Trained, epochs: int | None = None) -> RunSpec:
    """The plain run with the rows that were held out too.

    Training plainly is cheap, so whoever is handed a plain model does not pay for the comparison:
    it is the one that plain training would have given.
    """
    spec = plain.folder.spec
    return spec.model_copy(update={"held_out": 0.0, "epochs": epochs or spec.epochs})


def learned_by_heart(judgement: Judgement, learned: Integers, ulc: Trained) -> bool:
    """Whether nearly all labels that were learned from are predicted, right or wrong."""
    seen = judgement.prediction[learned].argmax(1) == judgement.given[learned]
    return bool(seen.mean() - ulc.agreement > max(BY_HEART * (1 - ulc.agreement), LITTLE))


def mean_of(first: Floats, second: Floats) -> Floats:
    """(N, K) geometric mean of two predictions, as probabilities."""
    mean = np.sqrt(np.maximum(first, 1e-12) * np.maximum(second, 1e-12))
    return mean / mean.sum(1, keepdims=True)


def some(probability: Floats, given: Integers) -> tuple[Floats, Integers]:
    """Rows drawn at random, if there are many: more would not change the noise found."""
    most = max(FEWEST_FITTED, MOST_FITTED // probability.shape[1])
    if len(given) <= most:
        return probability, given
    rows = np.random.default_rng(0).choice(len(given), most, replace=False)
    return probability[rows], given[rows]


def is_better(ulc: Trained, plain: Trained, rate: float) -> bool:
    """Whether ULC predicts more of the held-out labels, and the mean over classes does not fall.

    Both see the same rows, so only those count that one of them predicts and the other does not.
    Where few labels are wrong, ULC has to win beyond chance (5 %, one-sided), and in the mean over
    classes too; where many are, to be level is enough, because plain training then learns wrong
    labels by heart.
    """
    won = ulc.hits & ~plain.hits
    lost = plain.hits & ~ulc.hits
    lead, error = int(won.sum() - lost.sum()), np.sqrt((won | lost).sum())
    balanced = mean_by_class(won.astype(float) - lost, ulc.given)
    spread = np.sqrt(mean_by_class((won | lost).astype(float), ulc.given, power=2))
    if rate >= SOME_NOISE:
        return bool(lead >= 0 and balanced >= -spread)
    return bool(lead > CHANCE * error and balanced > 0)


def mean_by_class(values: Floats, given: Integers, power: int = 1) -> float:
    """Mean over the classes of their means; `power` 2: of the means over their sizes."""
    sizes = np.bincount(given)
    sums = np.bincount(given, weights=values)
    known = sizes > 0
    return float((sums[known] / sizes[known] ** power).sum() / known.sum() ** power)


def reason(plain: Trained, ulc: Trained, rate: float) -> str:
    """Which model is handed over, and why, in a sentence."""
    both = (
        f"of {len(plain.given)} held-out labels ULC predicts {100 * ulc.agreement:.1f} %, plain "
        f"training {100 * plain.agreement:.1f} %"
    )
    if is_better(ulc, plain, rate):
        return f"ULC's model; {both}"
    return f"the plain model, trained again on all rows, as ULC's is not clearly better; {both}"


def start_fresh(spec: AuditSpec, out: Path) -> None:
    """Remove the folder that an audit of this spec has, if it is one."""
    path = out / spec.folder_name
    if (path / "audit.toml").is_file():
        with RunFolder(path).locked():
            shutil.rmtree(path)
