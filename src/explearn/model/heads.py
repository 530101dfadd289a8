"""The kinds of head that a model can have, and which transformers class loads each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from explearn.core.records import ANSWER_LABELS

if TYPE_CHECKING:
    import transformers


@dataclass(frozen=True, slots=True)
class Head:
    """A kind of head.

    Attributes:
        suffix: how the names of transformers' classes with this head end; config.json gives one in `architectures`.
        loader: transformers' class that loads models with this head.
    """

    suffix: str
    loader: str

    def from_pretrained(self, name: str, **options: Any) -> tuple[transformers.PreTrainedModel, dict[str, Any]]:
        """The model and what transformers says of loading it; raises whatever transformers does.

        Its weights are in float32 unless `dtype` says otherwise (auto: as they were saved).
        """
        import torch
        import transformers

        options = {"dtype": torch.float32, **options}
        found: tuple[transformers.PreTrainedModel, dict[str, Any]] = getattr(transformers, self.loader).from_pretrained(
            name, output_loading_info=True, trust_remote_code=False, **options
        )
        return found


CLASSIFICATION = Head("ForSequenceClassification", "AutoModelForSequenceClassification")
QUESTION_ANSWERING = Head("ForQuestionAnswering", "AutoModelForQuestionAnswering")
GENERATION = Head("ForCausalLM", "AutoModelForCausalLM")
"""Gives the next token; a classifier only with a prompt and label words (`explearn.model.completion`)."""

_GENERATES = (GENERATION.suffix, "LMHeadModel")
"""How names of classes of generative models end; those of GPT-2 and its kin end in the second way."""


def head_of(config: transformers.PreTrainedConfig) -> Head:
    """The head that a saved model's configuration names; a classification head where it names none we know."""
    names = getattr(config, "architectures", None) or ()
    if any(str(name).endswith(QUESTION_ANSWERING.suffix) for name in names):
        return QUESTION_ANSWERING
    return GENERATION if any(str(name).endswith(_GENERATES) for name in names) else CLASSIFICATION


def head_for(labels: Sequence[str]) -> Head:
    """The head to train for a task's labels."""
    return QUESTION_ANSWERING if tuple(labels) == ANSWER_LABELS else CLASSIFICATION
