"""Make the weights of the consensus that come with the package, from a workspace of this project's own corpus.

    python scripts/make_consensus.py                          # the workspace here
    python scripts/make_consensus.py --workspace FOLDER --signals FOLDER

The workspace must have data/examples, data/rationales and data/classifiers of all tasks in params.yaml (for the weights
in the package, grammar too), as the stages prepare, rationalise and finetune write them. Signals are read from
data/signals there (stage features); with --signals they are computed where that folder does not hold them yet, and kept
there.

Learns from the marks of all these tasks and of nothing else, so that the weights carry no third party's data. Writes
src/explearn/methods/consensus/weights/with_words and, without the features of the word itself, signals_alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from explearn.core.compute import ComputeOptions
from explearn.core.errors import ExplearnError
from explearn.lens.word_signals import WordSignals
from explearn.methods.consensus.explainer import SHIPPED, Consensus
from explearn.methods.consensus.model import marked_texts, weight_of_skill
from explearn.text.sampling import texts_to_explain
from explearn_study.feature_files import read_signals, write_signals
from explearn_study.params import Params, load_params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace


class Source(WorkspaceTask):
    """A task whose signals are computed where there are none yet."""

    def __init__(self, workspace: Workspace, params: Params, name: str, folder: Path | None) -> None:
        super().__init__(workspace, params, name, ComputeOptions())
        self.folder = folder

    def signals(self, split: str) -> Iterable[WordSignals]:
        if self.folder is None:
            return super().signals(split)
        path = self.folder / self.name / f"{split}.parquet"
        if not path.exists():
            assert self.params.signals is not None
            chosen = texts_to_explain(self.examples(split), self.gold, self.params.signals.max_texts, self.params.seed)
            write_signals(path, self.classifier, chosen, description=f"{self.name}: signals of {split}")
        return read_signals(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workspace", type=Path, default=ROOT, help="folder that holds data/ (default: the project's)")
    parser.add_argument("--signals", type=Path, help="folder for signals (default: data/signals of the workspace)")
    options = parser.parse_args()
    params = load_params(ROOT / "params.yaml")
    foreign = sorted(name for name in params.tasks if params.sources[name].kind != "embedded")
    if foreign:
        raise SystemExit(f"tasks {', '.join(foreign)} are not of this project's corpus; compose the embedded profile")
    try:
        workspace = Workspace(options.workspace)
        sources = [Source(workspace, params, name, options.signals) for name in params.tasks]
        texts = {source.name: found for source in sources if (found := marked_texts(source))}
        weights = {source.name: weight_of_skill(source.skill) for source in sources if source.name in texts}
        for folder, word_features in (("with_words", True), ("signals_alone", False)):
            made = Consensus(seed=params.seed, word_features=word_features).fit_tasks(texts, weights)
            made.save_pretrained(SHIPPED / folder)
            notes = made.notes()
            for name, value in notes["coefficients"].items():
                low, high = notes["intervals"][name]
                print(f"{folder:14} {name:24} {value:+.3f} [{low:+.3f}, {high:+.3f}]")
    except ExplearnError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()
