"""What each signal brings to the consensus: its agreement with people with all of them, and with some left out.

    python benchmarks/consensus_signals.py [--root .] [--tasks reviews,sst2] [--beside grammar]
        [--without "attn_lrp;cam,grad_cam"]

`--root` is a workspace whose parameters name several tasks (profile `universal`), after the stages prepare,
rationalise, finetune and signals. Each task's marked training texts are judged by a consensus that has learned from the
other tasks' alone, without copies; no test text plays a part, so this is where to choose. Prints F1 with the top K
words and AUROC over all words, a column a task, and their means without the tasks under `--beside`. Default: all
signals, the default ones, and each of the default ones left out in turn.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from explearn.core.compute import ComputeOptions
from explearn.lens.word_signals import SIGNALS
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.model import MarkedText, marked_texts, source_weights
from explearn.methods.consensus.params import ConsensusParams
from explearn.metrics.plausibility import rationale_counts, rationale_k, select_top_k
from explearn_study.params import load_params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace


def judged(consensus: Consensus, texts: Sequence[MarkedText], k: int) -> tuple[float, float]:
    """F1 with the top K, and AUROC."""
    scores = [consensus.word_probabilities(text.signals) for text in texts]
    marks = [np.asarray(text.mask, dtype=bool) for text in texts]
    hit, false, missed = rationale_counts([select_top_k(s, k) for s in scores], marks).sum(0)
    return float(2 * hit / max(1, 2 * hit + false + missed)), float(
        roc_auc_score(np.concatenate(marks), np.concatenate(scores))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", help="which to judge, comma-separated (default: all; all are learned from)")
    parser.add_argument("--beside", default="", help="tasks that are no part of the means, comma-separated")
    parser.add_argument("--without", help="signals to leave out together, comma-separated; groups parted by semicolons")
    options = parser.parse_args()
    params = load_params(options.root / "params.yaml")
    workspace = Workspace(options.root)
    tasks = {name: WorkspaceTask(workspace, params, name, ComputeOptions()) for name in params.tasks}
    texts = {name: marked_texts(task) for name, task in tasks.items()}
    names = options.tasks.split(",") if options.tasks else params.tasks
    means = [name for name in names if name not in options.beside.split(",")]
    default = ConsensusParams().signals
    groups = [group.split(",") for group in (options.without or "").split(";") if group]
    sets = {"all": list(SIGNALS), "default": list(default)}
    for group in groups or [[name] for name in default]:
        sets["without " + ", ".join(group)] = [name for name in default if name not in group]
    print(" " * 34 + "".join(f"{name:>14}" for name in [*names, "mean"]))
    for what, signals in sets.items():
        rows = {}
        for name in names:
            others = {other: found for other, found in texts.items() if other != name and found}
            consensus = Consensus(signals=signals, copies=0)
            consensus.fit_tasks(others, weights=source_weights(tasks[name], others))
            k = rationale_k(float(np.mean([sum(text.mask) for text in texts[name]])))
            rows[name] = judged(consensus, texts[name], k)
        rows["mean"] = tuple(np.mean([rows[name] for name in means], 0).tolist())
        print(f"{what:34}" + "".join(f"{f'{f1:.3f}/{area:.3f}':>14}" for f1, area in rows.values()), flush=True)


if __name__ == "__main__":
    main()
