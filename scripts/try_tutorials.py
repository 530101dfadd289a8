"""Run the tutorials as their readers do: each in a clone of this checkout, in an environment that starts empty.

    python scripts/try_tutorials.py [NAME ...] [--folder FOLDER] [--newest]

Every fence of sh and Python runs as it stands, `pip install` with its extras included, in the versions of
requirements.lock. Fails with the first fence that fails, and prints how long each took. Needs git and a
package index, and nothing installed but Python.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from try_wheel import (
    ROOT,
    install_torch,
    new_environment,
    reader_environment,
    run,
    working_folder,
    write_constraints,
)

PAGES = {path.stem: path for path in sorted((ROOT / "docs/tutorials").glob("*.md"))}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PAGES)} (default: all)")
    arguments.add_argument("--folder", type=Path, help="Folder to work in, which is kept (default: a temporary one).")
    arguments.add_argument("--newest", action="store_true", help="Newest versions, not those of requirements.lock.")
    options = arguments.parse_args()
    if unknown := set(options.names) - set(PAGES):
        arguments.error(f"no tutorial named {', '.join(sorted(unknown))}; there are {', '.join(PAGES)}")
    with working_folder(options.folder) as folder:
        for name in options.names or PAGES:
            try_page(PAGES[name], folder / name, options.newest)


def try_page(page: Path, folder: Path, newest: bool) -> None:
    folder.mkdir()
    clone = folder / "clone"
    run(folder, "git", "clone", "--quiet", ROOT, clone)
    programs = new_environment(folder / "environment")
    environment = reader_environment()
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    if not newest:
        install_torch(folder, programs / "python")
        environment["PIP_CONSTRAINT"] = str(write_constraints(folder))
    for language, text in re.findall(r"^```(sh|python)\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M):
        print(f"--- {page.stem}\n{text}", flush=True)
        start = time.monotonic()
        shell = {"sh": ["sh", "-ec"], "python": [str(programs / "python"), "-c"]}
        command = [*shell[language], text]
        process = subprocess.Popen(command, cwd=clone, env=environment, start_new_session=True)
        code = process.wait()
        # What the fence has left in the background.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        if code:
            sys.exit(f"{page.relative_to(ROOT)}: exit code {code}")
        print(f"--- {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
