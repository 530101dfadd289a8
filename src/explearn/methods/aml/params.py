"""Options of pAML and fAML."""

from __future__ import annotations

from typing import Literal

from explearn.core.validation import Fraction, PositiveFloat, PositiveInt, Rounds, RoundsOrNone, Seeded, Units

ENCODER = "encoder"
"""The backbone that is the classifier's pretrained encoder."""
STATES = "states"
"""The backbone that is the classifier itself."""

Metric = Literal[
    "sufficiency",
    "comprehensiveness",
    "log_odds",
    "aopc_sufficiency",
    "aopc_comprehensiveness",
    "difference",
    "aopc_difference",
]
"""Those of `explearn.metrics.faithfulness`; a difference is comprehensiveness - sufficiency, of the headline percent or
of the AOPCs."""


class PAMLParams(Seeded):
    """pAML: an attribution model, G, trained once on many texts."""

    metric: Metric = "aopc_difference"
    """The metric of interest: the epoch that is best by it is kept."""
    protocol: Literal["default", "aml"] = "default"
    """How the metric is computed, as `evaluate.protocol`: over words, or over sub-tokens as in AML's code."""
    backbone: str = ENCODER
    """The pretrained encoder that becomes G: `encoder`, the one that the classifier was fine-tuned from, as in the
    paper; a hub name or a local folder, which may have another tokenizer; or `states`, no encoder but a small network
    on the classifier's hidden states."""
    prediction_weight: Fraction = 0.5
    """lambda_p: the masked text keeps the prediction. 0 leaves the term out."""
    size_weight: Fraction = 0.5
    """lambda_a: little of the text is kept. 0 leaves the term out."""
    inverse_weight: Fraction = 1.0
    """lambda_inv: the inversely masked text loses the prediction. 0 leaves the term out."""
    max_texts: PositiveInt = 1000
    """Most training texts, drawn by seed."""
    validation_texts: PositiveInt = 100
    """Most validation texts on which the metric of interest is measured, drawn by seed."""
    epochs: Rounds = 5
    """Passes over the training texts."""
    batch_size: Units = 8
    """Texts per step."""
    learning_rate: PositiveFloat = 5e-5
    """Learning rate of an encoder's pretrained weights (AdamW)."""
    head_learning_rate: PositiveFloat = 1e-3
    """Learning rate of new weights."""
    trials: RoundsOrNone = 0
    """Trials of a search for the three weights on the validation split; 0: no search. A weight set to 0 stays 0."""


class FAMLParams(Seeded):
    """fAML: pAML's model, fine-tuned anew on every text that it explains.

    All of an encoder, one text at a time, as in the paper; a network on the classifier's states by changes of low rank,
    many texts at a time."""

    metric: Metric | None = None
    """The metric of interest, by which each text's best map is kept (null: pAML's). It is computed as in pAML."""
    steps: RoundsOrNone = 20
    """Most steps per text."""
    learning_rate: PositiveFloat = 5e-5
    """Learning rate of AdamW, constant, without weight decay. Where G reads the classifier's states, 5e-3 is a good
    value."""
    samples: RoundsOrNone = 0
    """Maps tried after each step in addition to G's: the best map so far with two words exchanged. If above 0, the
    best top words of all maps are also joined into one map. 0: only G's map, as in the paper."""
