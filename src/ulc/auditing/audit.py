"""An audit: train a plain model and ULC+, judge every label, hand over one of the models.

The stages, in order; each returns what the table says:

    read_source             AuditSource       the data, and the backbone if images are embedded
    prepare_data            AuditData         prepared data, and the specs of both trainings
    train_elsewhere         nothing           with a launcher: both trainings, side by side
    train_and_measure       HeldOutRun        plain training, measured on held-out rows
    train_and_measure       HeldOutRun        ULC+, measured on the same rows
    judge_audit_labels      AuditJudgement    a posterior for every label, from predictions by
                                              networks of ULC+ and a second judge that have not
                                              learned the label
    compare_models          Comparison        whether the held-out rows allow the model of ULC+
    hand_over_robust or     HandedOver        the model of ULC+ if the comparison allows it, else
    hand_over_plain                           the plain model with early stopping
    write_audit             nothing           the files of the audit folder
    predict_unlabelled      nothing           predictions of the rows without a label

In the code, `plain` is the plain training and `robust` is ULC+, which has twice as many epochs.
Both keep the weights of their best epoch (training/collapse.py). After a stop, finished trainings
are read from the folder; the other stages run again.

No decision of an audit uses true labels. Where they are known, they only score each training and,
in `write_audit`, the judgement.
"""

from pathlib import Path

from ulc.auditing.data import AuditSource, prepare_data, read_source
from ulc.auditing.handing_over import compare_models, hand_over_plain, hand_over_robust
from ulc.auditing.judging import judge_audit_labels
from ulc.auditing.results import AuditResults, write_audit
from ulc.auditing.spec import AuditProgress, AuditSpec
from ulc.auditing.trainings import train_and_measure, train_elsewhere
from ulc.auditing.unlabelled import predict_unlabelled
from ulc.auditing.workspace import Workspace
from ulc.data.identity import DataIdentity, identify
from ulc.data.sources import load_source
from ulc.experiments.launchers import Launcher, find_launcher
from ulc.experiments.side_by_side import train_in_processes
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
    launcher: str | Launcher | None = None,
) -> RunFolder:
    """Audit the data of `spec` in a folder of its own under `out`.

    A finished audit of the same data is not repeated. A stopped one goes on: finished trainings
    are read from its folder. Beside a finished audit of other data a new
    one is made; a stopped audit of other data is an error.

    launcher: where both models are trained, side by side: local (two processes of this machine),
        ray, slurm, or a launcher with options; None: one after the other, in this process
    """
    if isinstance(launcher, str):
        launcher = find_launcher(launcher) or train_in_processes
    path = out / spec.folder_name
    finished = placing.find_finished(path, spec.data, None, spec.network.weights_file)
    if finished is not None:
        check_trusted(
            finished.spec, str(path), named_code(spec.network.name, spec.data.text_model or "")
        )
        check_own_code(finished, finished.spec, spec.embed)
        return finished
    torch_device, progress = choose_device(device), progress or AuditProgress()
    # before the folder is made: wrong input writes nothing
    source = read_source(spec, out, torch_device, progress)
    folder = placing.place(path, source.identity)
    if folder.done:
        check_own_code(folder, folder.spec, spec.embed)
        placing.remember_files(folder, source.identity)
        return folder
    workspace = Workspace(create_folder(folder.path), torch_device, progress, launcher, device)
    return audit_at(workspace, spec, source)


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
        check_own_code(folder, folder.spec, spec.embed)
        return folder
    torch_device, progress = choose_device(device), progress or AuditProgress()
    source = read_source(spec, path.absolute().parent, torch_device, progress)
    return audit_at(Workspace(create_folder(path), torch_device, progress), spec, source)


def audit_at(workspace: Workspace, spec: AuditSpec, source: AuditSource) -> RunFolder:
    """Audit in the folder of the workspace; what it holds already is not repeated."""
    folder = workspace.folder
    with folder.locked():
        placing.claim(folder, source.identity)
        folder.write("audit.toml", spec.write().encode())
        run_stages(spec, source, workspace)
        folder.finish()
    return folder


def run_stages(spec: AuditSpec, source: AuditSource, workspace: Workspace) -> None:
    """The stages of an audit after its data are read."""
    data = prepare_data(spec, source, workspace)
    specs = {"plain training": data.plain_spec, "ULC+": data.robust_spec}
    train_elsewhere(workspace, specs, data)
    plain, robust = (
        train_and_measure(workspace, title, each, data.prepared) for title, each in specs.items()
    )
    judgement = judge_audit_labels(robust, data.prepared)
    comparison = compare_models(robust, plain, judgement.frequency)
    if comparison.robust_passes:
        handed_over = hand_over_robust(robust, comparison, judgement)
    else:
        handed_over = hand_over_plain(plain, comparison)
    results = AuditResults(spec, data, plain, robust, judgement, handed_over)
    write_audit(workspace.folder, results)
    predict_unlabelled(workspace, spec)


def start_fresh_audit(spec: AuditSpec, out: Path) -> None:
    """Remove the audit of this spec and these data, and a stopped audit of this spec, if any.

    A finished audit of other data stays.
    """
    weights = spec.network.weights_file

    def read_identity() -> DataIdentity:
        return identify(load_source(spec.data), spec.data, None, None, weights)

    placing.remove_run(out / spec.folder_name, spec.data, None, read_identity, weights)
