"""The metrics by which methods are compared: direction, and what a text's own value is where words are pooled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of `explearn.metrics.evaluate.evaluate_task`.

    Attributes:
        name: its name, that of its mean or pooled figure.
        larger_is_better: direction.
        by_text: name of the texts' own values that paired tests take.
        of_model: whether it asks the classifier that is explained. Methods that explain different classifiers cannot be
            compared by such a metric.
        summary: one sentence for a reader who has never met it.
    """

    name: str
    larger_is_better: bool
    by_text: str
    summary: str
    of_model: bool = False


def _model(name: str, larger_is_better: bool, summary: str) -> Metric:
    return Metric(name, larger_is_better, name, summary, of_model=True)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("f1", True, "text_f1", "Overlap of the words chosen by the method's own rule with those people marked."),
        Metric("f1_topk", True, "text_f1_topk", "The same with the K best words of every method."),
        Metric("macro_f1", True, "text_f1", "Mean of the texts' own F1."),
        Metric("iou_f1", True, "text_iou_f1", "F1 of whole spans that overlap marked ones by half or more."),
        Metric("auroc", True, "text_auroc", "Chance that a marked word outscores an unmarked one, words pooled."),
        Metric("auprc", True, "text_auprc", "Average precision of the order of words, words pooled."),
        Metric("eraser_auprc", True, "text_auprc", "Mean area under the texts' own precision-recall curves."),
        _model("comprehensiveness", True, "Fall of the class's probability when the top words are taken out."),
        _model("sufficiency", False, "Fall of the class's probability when only the top words are left."),
        _model("log_odds", False, "Change of the logarithm of the class's probability when the top words are masked."),
        _model("aopc_comprehensiveness", True, "Comprehensiveness, mean over several shares of the words."),
        _model("aopc_sufficiency", False, "Sufficiency, mean over several shares of the words."),
        _model("delta_log_odds_positive", True, "Fall of the class's log-odds when words in its favour are masked."),
        _model("delta_log_odds_negative", False, "Fall of the class's log-odds when words against it are masked."),
        _model("prediction_agreement", True, "Share of texts whose class the top words alone preserve."),
        _model("infidelity", False, "Squared error of foretelling what masking random words does to the probability."),
        _model("stability_semantic", True, "Overlap of the explanations of texts near in meaning."),
        _model("stability_lexical", True, "Overlap of the explanations of texts near in wording."),
        _model("stability_semantic_content", True, "The same for texts near in meaning, without stop words."),
        _model("stability_lexical_content", True, "The same for texts near in wording, without stop words."),
        _model("consistency", True, "Rank correlation of distances between texts and between their explanations."),
        _model("simulatability", True, "Gain in foretelling the classifier of a student taught with explanations."),
    )
}
