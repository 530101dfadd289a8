"""What the report's figures mean, for a reader who has never met them."""

from __future__ import annotations

from dataclasses import dataclass

from explearn.core.sections import EvaluateParams


@dataclass(frozen=True, slots=True)
class Group:
    """A question, how it is answered, and its figures: name, meaning, which way is better."""

    question: str
    answer: str
    rows: list[tuple[str, str, str]]


INTRODUCTION = (
    "A text classifier reads a text and answers with a label. An explanation says which words led to the answer: every "
    "method gives each word a score, higher meaning more evidence for the predicted label, and the highest-scoring "
    "words are the ones it chooses. A rationale is the answer to the same question by someone who read the text: the "
    "words marked as the reason for its label. Some methods are learned: they were trained on rationales or on other "
    "explanations. The others compute scores from the classifier directly.",
    "The questions below are different questions, and a method can do well on one alone.",
)


def glossary(params: EvaluateParams) -> list[Group]:
    """Every figure of the leaderboards, by question."""
    confidence = f"{100 * params.confidence:g}"
    percents = ", ".join(str(percent) for percent in params.percents)
    removed = "deleting them" if params.removal == "delete" else "the mask token"
    top = f"top {params.headline_percent} %"
    protocol = {
        "default": "",
        "aml": " Counts and means follow AML's protocol (docs/metrics.md).",
        "eraser": " Counts and means follow ERASER's protocol (docs/metrics.md).",
    }[params.protocol]
    return [
        Group(
            "Does it agree with people? (plausibility)",
            "Compared are chosen and marked words, all texts pooled.",
            [
                ("Precision", "share of the chosen words that are marked", "higher"),
                ("Recall", "share of the marked words that are chosen", "higher"),
                (
                    "F1",
                    "harmonic mean of the two, words chosen by the method's own rule; in brackets its "
                    f"{confidence} % interval over resampled texts",
                    "higher",
                ),
                ("F1 top-K", "the same with one rule for all: each method's K highest-scoring words, K being the "
                 "usual length of a rationale", "higher"),
                ("Macro F1", "F1 of each text, then the mean", "higher"),
                ("Span F1", "the same for runs of words: a chosen run counts where it overlaps a marked one by half or "
                 "more (ERASER)", "higher"),
                ("AUROC", "chance that a marked word scores above an unmarked one; 0.5 is a coin's", "higher"),
                ("AUPRC", "mean precision down the list of all words by score", "higher"),
                ("AUPRC by text", "area under each text's precision-recall curve, then the mean (ERASER)", "higher"),
            ],
        ),
        Group(
            "Does it agree with the model? (faithfulness)",
            "The words a method ranks highest are taken out of the text (by "
            f"{removed}), or kept alone, and the classifier is asked again; p is its probability for the explained "
            f"label.{protocol}",
            [
                ("Comprehensiveness", f"how much p falls without the {top} of the words", "higher"),
                ("Sufficiency", "how much p falls with those words alone", "lower"),
                ("Log-odds", "change of log p when those words are masked", "lower"),
                ("AOPC compr., AOPC suff.", f"the first two, mean over the top {percents} %", "higher, lower"),
                ("Δ log-odds +", f"how much logit p falls when those of the {top} that speak for the label are masked",
                 "higher"),
                ("Δ log-odds −", "the same for as many words that speak against it; only of methods that say so by "
                 "scores below 0", "lower"),
                ("Prediction kept", f"share of texts whose label the {top} alone preserve", "higher"),
                ("Infidelity", "squared error of foretelling from the scores what masking random words does to p, each "
                 "text's scores first multiplied by the factor, of either sign, that fits those very masks best: only "
                 "proportions count, and methods whose scores have no sign gain by it", "lower"),
            ],
        ),
        Group(
            "Can one rely on it? (stability, consistency, simulatability)",
            "Texts and their explanations are compared with each other; the last figure trains small students.",
            [
                ("Stability, meaning", f"overlap of the explanations of a text and of the {params.neighbours} nearest "
                 "to it in the classifier's states, among the texts explained; the more words of a text count as "
                 "evidence, the larger it gets by itself", "higher"),
                ("Stability, wording", "the same for the nearest by shared words and phrases", "higher"),
                ("Meaning, Wording, content words", "the same without stop words", "higher"),
                ("Consistency", "rank correlation between how far apart the classifier's states of two texts are, and "
                 "how far apart their explanations", "higher"),
                ("Simulatability", "how many more of the classifier's answers a student foretells that was taught with "
                 "explanations", "higher"),
            ],
        ),
        Group(
            "What does it cost?",
            "Measured on the texts explained, a first few left out.",
            [
                ("Texts a second", "classified and explained", "higher"),
                ("Speed", "time of classifying alone, divided by the time of classifying and explaining; 1× costs "
                 "nothing", "higher"),
                ("Time", "the other way round: how many times longer than classifying alone", "lower"),
                ("Forward, backward passes", "texts sent through the classifier, and gradients taken through it, for "
                 "one text explained", "lower"),
                ("Memory", "largest memory in use while explaining, model included: of the GPU, or else of the whole "
                 "process", "lower"),
                ("Completeness error", "for methods whose scores should add up to a known number: by how much they "
                 "miss it, on average", "lower"),
            ],
        ),
    ]  # fmt: skip
