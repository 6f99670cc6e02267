"""An audit: train a plain model and ULC, judge every label, hand over the better model.

The stages, in order; each returns one value:

    read_source           AuditSource      the data, and the backbone if images are embedded
    prepare_data          AuditData        prepared data, and the specs of both trainings
    train_held_out        HeldOutRun       plain training, measured on held-out rows
    predict_out_of_fold   OutOfFold        plain predictions by cross-validation, label noise
    train_held_out        HeldOutRun       ULC, measured on the same rows
    judge_labels          AuditJudgement   a posterior for every label
    hand_over_ulc or      HandedOver       ULC's model if it is better on the held-out rows,
    hand_over_plain                        else a plain model
    write_results                          the files of the audit folder

No stage uses true labels; `write_results` scores the judgement by them where they are known.
"""

import shutil
from pathlib import Path

from ulc.auditing.choices import choose_doubtful_weight
from ulc.auditing.data import AuditSource, prepare_data, read_source
from ulc.auditing.handing_over import hand_over_plain, hand_over_ulc, is_better
from ulc.auditing.judging import judge_labels
from ulc.auditing.out_of_fold import predict_out_of_fold
from ulc.auditing.results import AuditResults, write_results
from ulc.auditing.spec import AuditProgress, AuditSpec
from ulc.auditing.workspace import Workspace, train_held_out
from ulc.storage.run_folder import RunFolder, create_folder
from ulc.training.device import choose_device


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
        return RunFolder.open(path)
    chosen, progress = choose_device(device), progress or AuditProgress()
    source = read_source(spec, path.parent, chosen, progress)
    folder = create_folder(path)
    with folder.locked():
        folder.write("audit.toml", spec.write().encode())
        run_stages(spec, source, Workspace(folder, chosen, progress))
        folder.finish()
    return folder


def run_stages(spec: AuditSpec, source: AuditSource, workspace: Workspace) -> None:
    """The stages of an audit after its data are read."""
    data = prepare_data(spec, source, workspace)
    plain = train_held_out(workspace, "plain training", data.plain, data.prepared)
    out_of_fold = predict_out_of_fold(workspace, plain, data.prepared)
    ulc_spec, choice = choose_doubtful_weight(data.ulc, spec, out_of_fold.noise_rate)
    workspace.progress.on_choice(choice)
    ulc = train_held_out(workspace, "ULC", ulc_spec, data.prepared)
    judged = judge_labels(out_of_fold, ulc, data.prepared)
    if is_better(ulc, plain, judged.noise_rate):
        handed_over = hand_over_ulc(ulc)
    else:
        handed_over = hand_over_plain(workspace, plain, out_of_fold, data.prepared)
    choices = (*data.choices, choice)
    results = AuditResults(spec, data, choices, plain, ulc, judged, handed_over)
    write_results(workspace.folder, results)


def start_fresh(spec: AuditSpec, out: Path) -> None:
    """Remove the folder of an audit of this spec, if there is one."""
    path = out / spec.folder_name
    if (path / "audit.toml").is_file():
        with RunFolder(path).locked():
            shutil.rmtree(path)
