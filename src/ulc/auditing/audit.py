"""An audit: train a plain model and ULC, judge every label, hand over one of the models.

The stages, in order; each returns what the table says:

    read_source             AuditSource       the data, and the backbone if images are embedded
    prepare_data            AuditData         prepared data, and the specs of both trainings
    train_and_measure       HeldOutRun        plain training, measured on held-out rows
    predict_out_of_fold     OutOfFold         plain predictions by cross-validation, label noise
    choose_doubtful_weight  RunSpec, Choice   ULC's spec with λ_u, chosen by the label noise
    train_and_measure       HeldOutRun        ULC, measured on the same rows
    judge_audit_labels      AuditJudgement    a posterior for every label, from the geometric mean
                                              of out-of-fold and ULC's predictions (out-of-fold
                                              alone if ULC has memorised its labels)
    compare_models          Comparison        whether the held-out rows allow ULC's model
    hand_over_ulc or        HandedOver        ULC's model if the comparison allows it, else a plain
    hand_over_plain                           model
    write_audit             nothing           the files of the audit folder
    predict_unlabelled      nothing           predictions of the rows without a label

No decision of an audit uses true labels. Where they are known, they only score each training and,
in `write_audit`, the judgement.
"""

from pathlib import Path

import torch

from ulc.auditing.choices import choose_doubtful_weight
from ulc.auditing.data import AuditSource, prepare_data, read_source
from ulc.auditing.handing_over import compare_models, hand_over_plain, hand_over_ulc
from ulc.auditing.judging import judge_audit_labels
from ulc.auditing.out_of_fold import predict_out_of_fold
from ulc.auditing.results import AuditResults, write_audit
from ulc.auditing.spec import AuditProgress, AuditSpec
from ulc.auditing.trainings import train_and_measure
from ulc.auditing.unlabelled import predict_unlabelled
from ulc.auditing.workspace import Workspace
from ulc.data.identity import DataIdentity, identify
from ulc.data.sources import load_source
from ulc.importing import named_code
from ulc.storage.run_folder import RunFolder, create_folder
from ulc.training import placing
from ulc.training.device import choose_device
from ulc.training.own_code import check_own_code, check_trusted


def run_audit(
    spec: AuditSpec,
    out: Path,
    *,
    device: str = "auto",
    progress: AuditProgress | None = None,
) -> RunFolder:
    """Audit the data of `spec` in a folder of its own under `out`.

    A finished audit of the same data is not repeated. A stopped one goes on: finished trainings and
    out-of-fold predictions are read from its folder. Beside a finished audit of other data a new
    one is made; a stopped audit of other data is an error.
    """
    path = out / spec.folder_name
    finished = placing.find_finished(path, spec.data, None)
    if finished is not None:
        check_trusted(
            finished.spec, str(path), named_code(spec.network.name, spec.data.text_model or "")
        )
        check_own_code(finished, finished.spec)
        return finished
    torch_device, progress = choose_device(device), progress or AuditProgress()
    # before the folder is made: wrong input writes nothing
    source = read_source(spec, out, torch_device, progress)
    folder = placing.place(path, source.identity)
    if folder.done:
        check_own_code(folder, folder.spec)
        placing.remember_files(folder, source.identity)
        return folder
    return audit_at(folder.path, spec, source, torch_device, progress)


def resume_audit(
    path: Path, *, device: str = "auto", progress: AuditProgress | None = None
) -> RunFolder:
    """Go on with the stopped audit in the folder `path`, and return the folder.

    A finished audit is returned as it is. Raise an InputError if the data have changed.
    """
    folder = RunFolder(path)
    folder.check_spec_file("audit.toml")
    spec = AuditSpec.read(path / "audit.toml")
    placing.check_name(path, spec.folder_name)
    if folder.done:
        check_own_code(folder, folder.spec)
        return folder
    torch_device, progress = choose_device(device), progress or AuditProgress()
    source = read_source(spec, path.absolute().parent, torch_device, progress)
    return audit_at(path, spec, source, torch_device, progress)


def audit_at(
    path: Path,
    spec: AuditSpec,
    source: AuditSource,
    device: torch.device,
    progress: AuditProgress,
) -> RunFolder:
    """Audit in the folder `path`; what it holds already is not repeated."""
    folder = create_folder(path)
    with folder.locked():
        placing.claim(folder, source.identity)
        folder.write("audit.toml", spec.write().encode())
        run_stages(spec, source, Workspace(folder, device, progress))
        folder.finish()
    return folder


def run_stages(spec: AuditSpec, source: AuditSource, workspace: Workspace) -> None:
    """The stages of an audit after its data are read."""
    data = prepare_data(spec, source, workspace)
    plain = train_and_measure(workspace, "plain training", data.plain_spec, data.prepared)
    out_of_fold = predict_out_of_fold(workspace, plain, data.prepared)
    ulc_spec, choice = choose_doubtful_weight(data.ulc_spec, spec, out_of_fold.plain_noise_rate)
    if choice is not None:
        workspace.progress.on_choice(choice)
    ulc = train_and_measure(workspace, "ULC", ulc_spec, data.prepared)
    judgement = judge_audit_labels(out_of_fold, ulc, data.prepared)
    comparison = compare_models(ulc, plain, judgement.noise_rate)
    if comparison.ulc_passes:
        handed_over = hand_over_ulc(ulc, comparison)
    else:
        handed_over = hand_over_plain(
            workspace, plain, comparison, out_of_fold.confusion, data.prepared
        )
    choices = data.choices if choice is None else (*data.choices, choice)
    results = AuditResults(spec, data, choices, plain, ulc, judgement, handed_over)
    write_audit(workspace.folder, results)
    predict_unlabelled(workspace)


def start_fresh_audit(spec: AuditSpec, out: Path) -> None:
    """Remove the audit of this spec and these data, and a stopped audit of this spec, if any.

    A finished audit of other data stays.
    """

    def read_identity() -> DataIdentity:
        return identify(load_source(spec.data), spec.data, None, None)

    placing.remove_run(out / spec.folder_name, spec.data, None, read_identity)
