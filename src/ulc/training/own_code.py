"""Detect edits of a user's own algorithm or network, so that a run does not mix two versions."""

from ulc.algorithms import find_algorithm
from ulc.config import NetworkSpec, RunSpec
from ulc.embedding.backbones import is_own_backbone
from ulc.errors import InputError
from ulc.importing import Trust, check_trust, imported, source_hash
from ulc.storage.run_folder import RunFolder


def hash_own_code(spec: RunSpec) -> dict[str, str]:
    """Hashes of the files of algorithm and network, of those outside the package."""
    hashes = {
        "algorithm": source_hash(find_algorithm(spec.algorithm)),
        "network": hash_network(spec.network),
    }
    return {kind: found for kind, found in hashes.items() if found is not None}


def hash_network(network: NetworkSpec) -> str | None:
    """Hash of the file of a network of the user's own; None for a built-in network."""
    return source_hash(imported(network.name, "network")) if ":" in network.name else None


def hash_backbone(name: str) -> dict[str, str]:
    """Hash of the file of a frozen network of the user's own; empty for one of a library."""
    found = source_hash(imported(name, "backbone")) if is_own_backbone(name) else None
    return {} if found is None else {"backbone": found}


def check_trusted(spec: RunSpec, where: str, trust: Trust) -> None:
    """Raise an InputError if the spec, which a file gave, names code that may not run.

    where: path of the file
    """
    check_trust(spec.algorithm, "algorithm", where, trust)
    check_trust(spec.network.name, "network", where, trust)
    # A model of sentences comes from a hub or a folder, with code of its own in some cases.
    check_trust(spec.data.text_model or "", "text model", where, trust)


def check_own_code(folder: RunFolder, spec: RunSpec, backbone: str = "none") -> None:
    """Raise an InputError if algorithm or network were edited after the folder's run began.

    backbone: name of the frozen network that embeds the images of an audit
    """
    if not folder.has("environment.json"):
        return
    before = folder.read_json("environment.json").get("own_code", {})
    names = {"algorithm": spec.algorithm, "network": spec.network.name, "backbone": backbone}
    for kind, found in (hash_own_code(spec) | hash_backbone(backbone)).items():
        if before.get(kind, found) != found:
            raise InputError(
                f"{folder.path}: the file of the {kind} '{names[kind]}' was edited after this run "
                "began; train anew with --fresh, or undo the edit"
            )
