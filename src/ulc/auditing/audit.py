"""Point at data: train plainly and with ULC, judge every label, hand over the better model.

An audit does no harm: ULC's model is handed over only where it predicts the given labels of rows
that nobody learned from at least as well as the plain model does. No true label is asked.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ulc.auditing import choices
from ulc.auditing.spec import AuditSpec, AuditWatcher, Choice
from ulc.config import DataSpec, RunSpec
from ulc.data.prepare import Prepared, prepare
from ulc.data.sources import load_source
from ulc.data.sources.source import Source
from ulc.embedding.backbones import load_backbone
from ulc.embedding.embed import Embedder, check_images, embed
from ulc.errors import InputError
from ulc.judged import Judged
from ulc.judgement import Floats, Integers, Judgement
from ulc.label_noise import LabelNoise
from ulc.run_folder import RunFolder, folder_at
from ulc.training.model import Model
from ulc.training.run import chosen_device, run

THRESHOLD = 0.5  # a label that is likelier wrong than right is doubted
HANDED_ON = (
    "environment.json", "data.json", "ids.json", "encoding.json", "embedding.npz",
    "records.jsonl", "outputs.npz", "model.safetensors", "model.json", "summary.json",
)  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """A run with rows held out, and what its model says of them."""

    folder: RunFolder
    probability: Floats
    given: Integers

    @property
    def agreement(self) -> float:
        """Share of the held-out rows whose given label is predicted."""
        return float((self.probability.argmax(1) == self.given).mean())

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
    watcher: AuditWatcher | None = None,
) -> RunFolder:
    """Audit the data of `spec` in a folder of its own under `out`; a finished one is only read.

    An audit that was stopped goes on where it was.
    """
    path = out / spec.folder_name
    if (path / "done").is_file():
        return RunFolder.open(path)
    return Audit(spec, path, device, watcher or AuditWatcher()).run()


class Audit:
    """One audit on its way."""

    def __init__(self, spec: AuditSpec, path: Path, device: str, watcher: AuditWatcher) -> None:
        self.spec = spec
        self.device = chosen_device(device)
        self.watcher = watcher
        self.path = path
        self.made: list[Choice] = []

    def run(self) -> RunFolder:
        """All of it: read, choose, train plainly, train ULC, judge, hand over."""
        with self.watcher.reading() as seen:
            source = load_source(self.spec.data, seen)
        backbone, choice = choices.embedding(self.spec, source, self.device)
        self.say(choice)
        folder = folder_at(self.path)
        with folder.locked():
            folder.write("audit.toml", self.spec.write().encode())
            data = self.spec.data
            if backbone is not None:
                data, source = self.embedded(source, backbone)
            plain_spec, ulc_spec = self.specs(data, source)
            plain = self.train("plain training", plain_spec, source)
            noise = LabelNoise.fit(plain.probability, plain.given)
            rate = noise.rate(plain.probability, plain.given)
            ulc_spec, choice = choices.by_noise(ulc_spec, self.spec, rate)
            self.say(choice)
            ulc = self.train("ULC", ulc_spec, source)
            self.hand_over(folder, source, plain, ulc)
        return folder

    def say(self, choice: Choice) -> None:
        """Note a choice."""
        self.made.append(choice)
        self.watcher.chosen(choice)

    def embedded(self, source: Source, backbone: str) -> tuple[DataSpec, Source]:
        """The images as features of a frozen network, in a file of the audit's own."""
        check_images(source)
        file = self.path / "features.npz"
        embedder = Embedder(load_backbone(backbone), self.path.parent / "embedded", self.device)
        with self.watcher.embedding(backbone) as seen:
            embed(source, embedder, seen=seen).write(file)
        data = DataSpec(source="npz", path=str(file.absolute()))
        return data, load_source(data)

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

    def train(self, title: str, spec: RunSpec, source: Source) -> Trained:
        """A run below the audit's folder, and its predictions for the rows it held out."""
        folder = self.trained(title, spec, source)
        prepared = prepare(spec, self.device, source=source)
        if prepared.watched is None:
            raise InputError("an audit needs rows that are held out")
        model = Model.load(folder)
        probability = model.predict_stored(prepared.watched.stored.cpu())
        return Trained(folder, probability, prepared.watched.given.cpu().numpy())

    def trained(self, title: str, spec: RunSpec, source: Source) -> RunFolder:
        """A run below the audit's folder, finished now or before."""
        with self.watcher.training(title, spec.epochs) as watcher:
            runs = self.path / "runs"
            return run(spec, runs, device=str(self.device), watcher=watcher, source=source)

    def hand_over(self, folder: RunFolder, source: Source, plain: Trained, ulc: Trained) -> None:
        """Judge the labels, choose the model, and write it all."""
        prepared = prepare(ulc.folder.spec, self.device, source=source)
        judge = judge_of(plain, ulc)
        noise = LabelNoise.fit(judge.probability, judge.given)
        judgement = judge.folder.judgement
        judgement = judgement.under(noise.posterior(judgement.prediction, judgement.given))
        better = ulc if ulc.agreement >= plain.agreement else plain
        handed = better.folder if better is ulc else self.plain_on_all(plain, source)
        for name in HANDED_ON:
            if handed.has(name):
                folder.write(name, handed.read(name))
        spec = handed.spec.model_copy(update={"data": self.spec.data})
        folder.write("spec.toml", spec.write().encode())
        judged(judgement, prepared).write(folder)
        if better is not judge:
            noise = LabelNoise.fit(better.probability, better.given)
        folder.write_json("noise.json", noise.model_dump(mode="json"))
        folder.write_json(
            "audit.json",
            {
                "format": 1,
                "data": self.spec.data.model_dump(mode="json"),
                "choices": [vars(choice) for choice in self.made],
                "noise_rate": float(1 - judgement.clean_probability.mean()),
                "held_out": len(ulc.given),
                "plain": plain.summary,
                "ulc": ulc.summary,
                "judged_by": "ulc" if judge is ulc else "ce",
                "handed_over": "ulc" if better is ulc else "ce",
                "why": reason(plain, ulc),
            },
        )
        folder.finish()

    def plain_on_all(self, plain: Trained, source: Source) -> RunFolder:
        """The plain run again, with the rows that were held out, for as many epochs as were best.

        Training plainly is cheap, so nobody who is handed a plain model pays for the comparison.
        """
        epochs = plain.summary["kept_epoch"] + 1
        spec = plain.folder.spec.model_copy(update={"held_out": 0.0, "epochs": epochs})
        return self.trained("plain training on all rows", spec, source)


def judge_of(plain: Trained, ulc: Trained) -> Trained:
    """Whose opinion on the labels counts: ULC's, unless its training failed."""
    error = np.sqrt(plain.agreement * (1 - plain.agreement) / len(plain.given))
    failed = plain.agreement - ulc.agreement > max(0.1, 4 * error)
    return plain if failed else ulc


def judged(judgement: Judgement, prepared: Prepared) -> Judged:
    """With all that it takes to write the tables."""
    return Judged(
        judgement,
        prepared.class_names,
        THRESHOLD,
        prepared.ids,
        prepared.verified,
        prepared.stored.cpu().numpy(),
    )


def reason(plain: Trained, ulc: Trained) -> str:
    """Which model is handed over, and why, in a sentence."""
    ours, theirs = 100 * ulc.agreement, 100 * plain.agreement
    count = len(plain.given)
    if ulc.agreement >= plain.agreement:
        return (
            f"ULC's model: it predicts {ours:.1f} % of the {count} held-out labels, plain training "
            f"{theirs:.1f} %"
        )
    return (
        f"the plain model, trained again on all rows: it predicts {theirs:.1f} % of the {count} "
        f"held-out labels, ULC {ours:.1f} %"
    )


def start_fresh(spec: AuditSpec, out: Path) -> None:
    """Remove the folder that an audit of this spec has, if it is one."""
    path = out / spec.folder_name
    if (path / "audit.toml").is_file():
        with RunFolder(path).locked():
            shutil.rmtree(path)
