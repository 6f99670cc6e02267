"""The data of an audit: read once, embedded if that helps, prepared once."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ulc.algorithms import configure
from ulc.auditing import choices
from ulc.auditing.pictures import look_at_pictures
from ulc.auditing.spec import AuditProgress, AuditSpec, Choice
from ulc.auditing.workspace import Workspace
from ulc.config import DataSpec, RunSpec
from ulc.data.held_out import count_held_out
from ulc.data.identity import DataIdentity, identify
from ulc.data.prepare import Prepared, prepare
from ulc.data.sources import load_source
from ulc.data.sources.source import Source
from ulc.embedding.backbones import load_backbone
from ulc.embedding.embed import Embedder, check_images, embed
from ulc.embedding.pool import count_processes
from ulc.errors import InputError
from ulc.networks import network_maker
from ulc.settings.automatic import Size, settings


@dataclass
class AuditSource:
    """The data as they were read.

    source: None after `hand_over`
    embedder: the frozen network that turns images into features; None: nothing is embedded
    choice: the choice of the embedder
    """

    source: Source | None
    identity: DataIdentity
    embedder: Embedder | None
    choice: Choice

    def hand_over(self) -> Source:
        """Return the data and forget them: prepared inputs are in memory instead of these."""
        source, self.source = self.source, None
        if source is None:
            raise RuntimeError("the data were handed over before")
        return source


@dataclass(frozen=True)
class AuditData:
    """Prepared data with rows held out, and the specs of the two trainings.

    plain_spec: cross entropy; robust_spec: ULC+
    choices: all choices of the audit
    pictures: entries of health.json about pictures; empty: the inputs are no images
    again: prepares the same data in another process
    """

    prepared: Prepared
    plain_spec: RunSpec
    robust_spec: RunSpec
    choices: tuple[Choice, ...]
    pictures: dict[str, Any]
    again: "PrepareAgain"


@dataclass(frozen=True)
class PrepareAgain:
    """Reads and prepares the data of an audit once more, in another process.

    content: digest of the data
    about: fields of the source that are not read from its features, as the audit has them
    """

    content: str
    about: dict[str, Any]

    def __call__(self, spec: RunSpec, device: torch.device) -> Prepared:
        """The data of one of the trainings; raise an InputError if they have changed."""
        source = replace(load_source(spec.data), **self.about)
        prepared = prepare(spec, device, source=source)
        if prepared.identity.content != self.content:
            raise InputError(
                f"{source.name}: has changed since the audit began; give the command again"
            )
        return prepared


def read_source(
    spec: AuditSpec, root: Path, device: torch.device, progress: AuditProgress
) -> AuditSource:
    """Read the data, choose the embedding, and check the settings; nothing is written.

    root: holds the cache of embedded images, which all audits under it share
    """
    began = time.time()
    with progress.reading() as on_progress:
        source = load_source(spec.data, on_progress)
    identity = identify(source, spec.data, None, began, spec.network.weights_file)
    for note in (*source.notes, *(f"Warning: {each}" for each in source.warnings)):
        progress.on_note(note)
    backbone, choice = choices.choose_backbone(spec, source, device)
    progress.on_choice(choice)
    configure("ulc_plus", spec.options)  # only to raise for wrong settings
    if backbone is None:
        shape = source.inputs.shape[1:]
        # only to raise for wrong settings
        network_maker(spec.network, shape, len(source.class_names), device)
        return AuditSource(source, identity, None, choice)
    check_images(source)
    embedder = Embedder(
        load_backbone(backbone), root / "embedded", device, processes=count_processes()
    )
    return AuditSource(source, identity, embedder, choice)


def prepare_data(spec: AuditSpec, audit_source: AuditSource, workspace: Workspace) -> AuditData:
    """Look at images, embed them if that was chosen, choose the trainings, prepare the data."""
    data = spec.data
    source, pictures = look_at_pictures(audit_source.hand_over(), workspace.progress)
    if audit_source.embedder is not None:
        data, source = embed_source(source, audit_source.embedder, workspace)
    shape = source.inputs.shape[1:]
    share, held_out_choice = choices.choose_held_out(spec, source.labels)
    network, network_choice = choices.choose_network(spec, source, workspace.device)
    training_rows = len(source.labels) - count_held_out(source.labels, share)
    size = Size(shape, training_rows, len(source.class_names))
    epochs, epochs_choice = choices.choose_epochs(spec, size)
    new_choices = (held_out_choice, network_choice, epochs_choice)
    for choice in new_choices:
        workspace.progress.on_choice(choice)
    common = {"data": data, "network": network, "seed": spec.seed, "held_out": share}
    plain_spec = settings("ce", size, choices.plain_epochs(epochs), None)
    plain_spec = plain_spec.model_copy(update=common)
    # A score is a probability only if no network judges a label that it has learned.
    apart = {"allowed_gap": 0.0} | dict(spec.options)
    robust_spec = settings("ulc_plus", size, epochs, apart)
    robust_spec = robust_spec.model_copy(update=common)
    prepared = prepare(plain_spec, workspace.device, source=source)
    all_choices = (audit_source.choice, *new_choices)
    again = PrepareAgain(prepared.identity.content, about_rows(source))
    return AuditData(prepared, plain_spec, robust_spec, all_choices, pictures, again)


def embed_source(
    source: Source, embedder: Embedder, workspace: Workspace
) -> tuple[DataSpec, Source]:
    """Embed the images, write features.npz to the audit's folder, and read it.

    Return its spec and its content.
    """
    file = workspace.folder.path / "features.npz"
    with workspace.progress.embedding(embedder.backbone.name) as on_progress:
        embed(source, embedder, on_progress=on_progress).write(file)
    data = DataSpec(source="npz", path=str(file.absolute()))
    return data, replace(load_source(data), **about_rows(source))


def about_rows(source: Source) -> dict[str, Any]:
    """Fields of a source about its rows that a file of their features does not hold."""
    names = ("skipped", "unlabelled", "notes", "warnings")
    return {name: getattr(source, name) for name in names}
