"""The kinds of head that models have, and how files name them."""

from __future__ import annotations

from collections.abc import Sequence

CLASSIFICATION = "AutoModelForSequenceClassification"
QUESTION_ANSWERING = "AutoModelForQuestionAnswering"
TOKEN_CLASSIFICATION = "AutoModelForTokenClassification"
GENERATION = "AutoModelForCausalLM"
"""Kinds of head, named by the transformers class that loads models with it. The last predicts the next token: such a
model is a classifier only with a prompt and label words (`explearn.predictors.heads.completion`)."""

_SUFFIXES = {
    "ForQuestionAnswering": QUESTION_ANSWERING,
    "ForTokenClassification": TOKEN_CLASSIFICATION,
    "ForCausalLM": GENERATION,
    "LMHeadModel": GENERATION,
}
"""Suffix of the name of a transformers class, which config.json gives in `architectures` -> head."""


def head_of(names: Sequence[str]) -> str:
    """Return the head of a model of one of these transformers classes; a classification head for other classes."""
    for suffix, head in _SUFFIXES.items():
        for name in names:
            if name.endswith(suffix):
                return head
    return CLASSIFICATION


HEADS_OF_TASKS = {
    "SEQ_CLS": CLASSIFICATION,
    "QUESTION_ANS": QUESTION_ANSWERING,
    "TOKEN_CLS": TOKEN_CLASSIFICATION,
    "CAUSAL_LM": GENERATION,
}
"""Name of a task in peft -> head, for adapters, whose base model may have no head."""
