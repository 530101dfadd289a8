"""Compose params.yaml from conf/, just as `dvc exp run` does (hydra.enabled in .dvc/config).

    python scripts/compose_params.py                    # the default profile
    python scripts/compose_params.py profile=local seed=7
    python scripts/compose_params.py --check            # exit code 1 where params.yaml is not what conf/ composes

`dvc repro` reads params.yaml as it is; only `dvc exp run` composes it anew.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from explearn.core.writing import write_text

PARAMS = ROOT / "params.yaml"


def compose(overrides: list[str]) -> str:
    """Return the text of params.yaml for these Hydra overrides."""
    from dvc.utils.hydra import compose_and_dump
    from hydra.errors import HydraException
    from yaml import YAMLError

    with tempfile.TemporaryDirectory() as folder:
        composed = Path(folder) / PARAMS.name
        try:
            compose_and_dump(
                output_file=composed,
                config_dir=str(ROOT / "conf"),
                config_module=None,
                config_name="config",
                plugins_path=str(ROOT / "conf"),
                overrides=overrides,
            )
        except (HydraException, YAMLError) as error:
            print(f"{Path(__file__).name}: conf/ does not compose: {' '.join(str(error).split())}", file=sys.stderr)
            raise SystemExit(2) from error
        return composed.read_text(encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s [--check] [NAME=VALUE ...]",
    )
    parser.add_argument("overrides", nargs="*", metavar="NAME=VALUE", help="Hydra overrides, as with dvc exp run -S")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where params.yaml would change")
    options = parser.parse_args()
    text = compose(options.overrides)
    if PARAMS.exists() and PARAMS.read_text(encoding="utf-8") == text:
        return
    if options.check:
        sys.exit("params.yaml: it is not what conf/ composes; change conf/ where that is meant, then run `make params`")
    write_text(PARAMS, text)


if __name__ == "__main__":
    main()
