"""Fixtures: headless Chromium and the accessibility checker, where they are installed."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from filelock import FileLock

AXE = "axe-core@4.10.3"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def chromium():
    """Headless Chromium: the program that ULC_CHROMIUM names, or one on the path."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = os.environ.get("ULC_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium on this machine: install it, or set ULC_CHROMIUM to its program")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The script of axe-core: the file that ULC_AXE names, or from npm in CI."""
    if os.environ.get("ULC_AXE"):
        return Path(os.environ["ULC_AXE"]).read_text(encoding="utf-8")
    if not os.environ.get("CI") or shutil.which("npm") is None:
        pytest.skip("no axe-core: set ULC_AXE to its axe.min.js")
    root = tmp_path_factory.getbasetemp().parent / "axe"  # shared by parallel workers
    with FileLock(f"{root}.lock"):
        if not root.is_dir():
            scratch = tmp_path_factory.mktemp("npm-axe")
            command = ["npm", "pack", AXE, "--silent"]
            if subprocess.run(command, cwd=scratch, check=False).returncode:
                pytest.skip(f"npm could not bring {AXE}")
            with tarfile.open(next(scratch.glob("*.tgz"))) as archive:
                archive.extractall(scratch, filter="data")
            (scratch / "package").rename(root)
    return (root / "axe.min.js").read_text(encoding="utf-8")
