"""Where things lie in the repository and its environment."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
"""The variable PATH with the commands of the tests' own environment first."""
