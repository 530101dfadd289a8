"""An empty environment with the wheel and the packages of the core: as `pip install explearn` leaves it, in a second.

The packages are links to those that the tests run with, so nothing is fetched.
"""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(requirements):
    """Names of all packages that the requirements bring, those of their own requirements included."""
    actual = set()
    left = [Requirement(line) for line in requirements]
    while left:
        wanted = left.pop()
        name = canonicalize_name(wanted.name)
        for extra in {"", *wanted.extras}:
            if (name, extra) in actual:
                continue
            actual.add((name, extra))
            for line in importlib.metadata.requires(name) or ():
                other = Requirement(line)
                if other.marker is None or other.marker.evaluate({"extra": extra}):
                    left.append(other)
    return {name for name, _ in actual}


def build_wheel(repository, folder):
    """Build the wheel from a copy of what it is made from: the checkout gets no build folder."""
    copy = folder / "checkout"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, copy)
    without = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(repository / "src", copy / "src", ignore=without)
    # The wheel is made from the source package: it shows what that one leaves out.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", copy]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def make_core_venv(folder, wheel):
    """Make the environment; returns its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode("utf-8").splitlines()
    needed = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
    for name in closure(line for line in needed if not re.search(r"\bextra\s*==", line)):
        _link(importlib.metadata.distribution(name), site)
    return folder / "bin" / "python"


def _link(package, site):
    """Link what a package has in site-packages; its scripts stay away."""
    tops = {Path(file).parts[0] for file in package.files or ()} - {"..", "__pycache__"}
    for top in tops:
        target = Path(str(package.locate_file(top)))
        link = site / top
        if target.exists() and not link.exists():
            link.symlink_to(target)
