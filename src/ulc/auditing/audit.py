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

import shutil
from pathlib import Path

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
from ulc.storage.run_folder import RunFolder, create_folder
from ulc.training.device import choose_device
from ulc.training.own_code import check_own_code


def run_audit(
    spec: AuditSpec,
    out: Path,
    *,
    device: str = "auto",
    progress: AuditProgress | None = None,
) -> RunFolder:
    """Audit the data of `spec` in a folder of its own under `out`.

    A finished audit is not repeated. A stopped audit goes on: finished trainings and out-of-fold
    predictions are read from its folder.
    """
    path = out / spec.folder_name
    if (path / "done").is_file():
        finished = RunFolder.open(path)
        check_own_code(finished, finished.spec)
        return finished
    torch_device, progress = choose_device(device), progress or AuditProgress()
    # before the folder is made: wrong input writes nothing
    source = read_source(spec, out, torch_device, progress)
    folder = create_folder(path)
    with folder.locked():
        folder.write("audit.toml", spec.write().encode())
        run_stages(spec, source, Workspace(folder, torch_device, progress))
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
    """Remove the folder of an audit of this spec, if there is one."""
    path = out / spec.folder_name
    if (path / "audit.toml").is_file():
        with RunFolder(path).locked():
            shutil.rmtree(path)
