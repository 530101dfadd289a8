"""What the consensus has learned: the weight of each signal and word feature, and what is left without either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from explearn.show.blocks import Block
from explearn.show.markdown import Markdown, escape_markdown
from explearn.show.task_report import Number, TaskReport
from explearn.show.verdict import counted_tasks
from explearn_study.params import Params

CONSENSUS = "consensus"

STUDENT = "expnet"
"""What learns from the consensus, and is shown beside it where both were checked on other models."""

OTHER_MODELS = {
    "random_model": "all the classifier's weights were drawn anew",
    "random_labels": "the encoder was fine-tuned on permuted labels",
}
"""Check of the stage sanity -> what was changed."""

FIGURE = "consensus.svg"

KINDS = {"z": "z-score", "rank": "Rank", "share": "Share"}
"""What the consensus takes of each signal, by the end of the feature's name."""

WEIGHTS_INTRODUCTION = Markdown(
    "How far a word's logit rises with one standard deviation of a feature. Each task has a consensus of its own, "
    "which has learned from the other tasks' marks. The coefficients are means over the tasks. In brackets are 95 % "
    "intervals over texts drawn anew; their ends are means over the tasks, too. **Bold**: zero lies outside of it. "
    "The signals overlap, and so do the three features of each. Read a row together, and no coefficient by itself as "
    "the worth of a method."
)


@dataclass(frozen=True, slots=True)
class Weight:
    """A feature's coefficient: its mean over the tasks, its interval (None without a bootstrap), and by task."""

    mean: float
    interval: tuple[float, float] | None
    by_task: Mapping[str, float]

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]

    @property
    def cell(self) -> Markdown:
        bounds = "" if self.interval is None else f" ({self.interval[0]:+.2f} to {self.interval[1]:+.2f})"
        return Markdown(f"**{self.mean:+.2f}**{bounds}" if self.clear else f"{self.mean:+.2f}{bounds}")


@dataclass(frozen=True, slots=True)
class ConsensusWeights:
    """signals: signal -> kind (of KINDS) -> weight. others: feature -> weight, the largest first."""

    signals: Mapping[str, Mapping[str, Weight]]
    others: Mapping[str, Weight]

    @property
    def all(self) -> dict[str, Weight]:
        """Feature -> weight."""
        by_signal = {f"{name}_{kind}": w for name, kinds in self.signals.items() for kind, w in kinds.items()}
        return {**by_signal, **self.others}


def consensus_weights(tasks: Sequence[TaskReport]) -> ConsensusWeights | None:
    """Means over the tasks for which a consensus was trained; None where there is none."""
    found_notes = {task.task: task.notes.get(CONSENSUS, {}) for task in tasks}
    notes = {task: found for task, found in found_notes.items() if "coefficients" in found and "shipped" not in found}
    if not notes:
        return None
    first = next(iter(notes.values()))
    weights = {}
    for feature in first["coefficients"]:
        ends = [found["intervals"][feature] for found in notes.values() if feature in found["intervals"]]
        by_task = {task: float(found["coefficients"][feature]) for task, found in notes.items()}
        interval = (fmean(low for low, _ in ends), fmean(high for _, high in ends)) if len(ends) == len(notes) else None
        weights[feature] = Weight(fmean(by_task.values()), interval, by_task)
    signals = {
        signal: {kind: weights.pop(f"{signal}_{kind}") for kind in KINDS if f"{signal}_{kind}" in weights}
        for signal in first["signals"]
    }
    others = sorted(weights, key=lambda name: (-abs(weights[name].mean), name))
    return ConsensusWeights(signals, {name: weights[name] for name in others})


def weights_blocks(tasks: Sequence[TaskReport]) -> list[Block]:
    """The figure and a table of the signals, and one of the other features."""
    found = consensus_weights(tasks)
    if found is None:
        return []
    by_signal = [
        [signal, *(kinds[kind].cell if kind in kinds else Markdown("–") for kind in KINDS)]
        for signal, kinds in found.signals.items()
    ]
    others = [[feature, weight.cell] for feature, weight in found.others.items()]
    return [
        Block(
            "Weights of the signals",
            headings=["Signal", *KINDS.values()],
            rows=by_signal,
            figure=FIGURE,
            alt="Heat map of the signals' coefficients, and points with intervals of the other features'",
        ),
        Block("Weights of the words around and of the word itself", headings=["Feature", "Coefficient"], rows=others),
    ]


def weights_sentences(params: Params, tasks: Sequence[TaskReport]) -> list[Markdown]:
    """What stands out, what words and signals alone reach, and what is left on a classifier with random weights."""
    found = consensus_weights(tasks)
    if found is None:
        return []
    alone = _alone(params, counted_tasks(params, tasks))
    return [Markdown(said) for said in (*_clear(found), *alone, *_other_models(tasks))]


def _clear(found: ConsensusWeights) -> list[str]:
    clear = {name: weight for name, weight in found.all.items() if weight.clear}
    if not clear:
        return []
    largest = sorted(clear, key=lambda name: -abs(clear[name].mean))[:5]
    listed = ", ".join(f"{escape_markdown(name)} {clear[name].mean:+.2f}" for name in largest)
    return [f"{len(clear)} of {len(found.all)} intervals leave out zero. The largest of these: {listed}."]


def _alone(params: Params, tasks: Sequence[TaskReport]) -> list[str]:
    """F1 and AUROC of the consensus beside its variants without signals and without the features of the word."""
    kinds: dict[str, str] = {}
    for name in params.variants:
        if params.variants[name]["of"] == CONSENSUS:
            options = params.options_of(name)
            if not options["signals"]:
                kinds.setdefault("words alone, which no model takes part in", name)
            elif not options["word_features"]:
                kinds.setdefault("signals alone, without a feature of the word itself", name)
    if not kinds:
        return [
            "What words alone give, and what signals alone, is not in this run: name variants of consensus with "
            "signals: [] and with word_features: false (docs/consensus.md)."
        ]
    of = {
        CONSENSUS: "consensus as it is",
        **{name: f"{what} ({escape_markdown(name)})" for what, name in kinds.items()},
    }
    if any("random" in task.methods for task in tasks):
        of["random"] = "random scores"
    told = [f"{what} {_mean(tasks, name, 'f1_topk')} / {_mean(tasks, name, 'auroc')}" for name, what in of.items()]
    names = ", ".join(escape_markdown(task.task) for task in tasks)
    return [f"F1 top-K / AUROC, means over {names}: {'; '.join(told)}."]


def _mean(tasks: Sequence[TaskReport], method: str, metric: str) -> str:
    values: list[Number] = [task.methods.get(method, {}).get(metric) for task in tasks]
    known = [value for value in values if value is not None]
    return f"{fmean(known):.3f}" if known else "–"


def _other_models(tasks: Sequence[TaskReport]) -> list[str]:
    """What is left of the scores on a classifier with random weights, and on one that learned permuted labels."""
    learned = dict.fromkeys(name for task in tasks for name in task.notes if "coefficients" in task.notes[name])
    said = []
    for check, change in OTHER_MODELS.items():
        kept = {name: values for name in (*learned, STUDENT) if (values := _kept(tasks, name, check))}
        if kept:
            listed = ", ".join(f"{escape_markdown(name)} {fmean(values):.2f}" for name, values in kept.items())
            said.append(
                f"Mean rank correlation of a text's scores with those after {change}: {listed}. What is left does not "
                "come from what the classifier has learned."
            )
    return said


def _kept(tasks: Sequence[TaskReport], method: str, check: str) -> list[float]:
    found = []
    for task in tasks:
        result = task.sanity.get("methods", {}).get(method, {})
        similarity = result.get(check)
        if check == "random_model" and similarity:
            # The last part is the one with which all weights are new.
            similarity = list(similarity.values())[-1]
        if similarity and similarity["spearman"] is not None:
            found.append(float(similarity["spearman"]))
    return found
