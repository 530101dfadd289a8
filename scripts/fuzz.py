"""Run the fuzz tests again and again, with other examples each time, for some minutes (`make fuzz`)."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--examples", type=int, default=200, help="for each test, each time")
    options = parser.parse_args()
    end, rounds = time.monotonic() + 60 * options.minutes, 0
    while not rounds or time.monotonic() < end:
        seed = random.randrange(2**32)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "tests/explearn/test_fuzz.py",
            "tests/study/test_fuzz.py",
            f"--hypothesis-seed={seed}",
        ]
        environment = {**os.environ, "EXPLEARN_FUZZ_EXAMPLES": str(options.examples)}
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if done.returncode:
            print(f"fuzz: failed with --hypothesis-seed={seed}", file=sys.stderr)
            raise SystemExit(1)
        rounds += 1
    print(f"fuzz: {rounds} rounds of {options.examples} examples a test, no failure")


if __name__ == "__main__":
    main()
