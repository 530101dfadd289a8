"""Words to exchange for a word: from a list, or from the masked-word head in the classifier's own checkpoint."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from explearn.core.errors import UnsupportedError
from explearn.decision.change import Replacements
from explearn.decision.decision import Decision
from explearn.predictors.loading import errors_of_loading, quiet_transformers
from explearn.predictors.predictor import transformer_of
from explearn.text.rewriting import rewrite

CANDIDATES = 3
"""Number of words that the masked-word head proposes for a place."""


def from_list(words: Sequence[str], listed: Mapping[str, Sequence[str]]) -> Replacements:
    """Return replacements by a list; case and the punctuation around a word do not count, and stay.

    Args:
        words: words of the text.
        listed: word -> words for its place.

    Example:
        >>> from_list(["Bad,"], {"bad": ["good"]})(0)
        ['good,']
    """
    by_word = {word.casefold(): list(others) for word, others in listed.items()}

    def replacements(position: int) -> list[str]:
        word = words[position]
        core = word.strip(string.punctuation) or word
        before, _, after = word.partition(core)
        return [f"{before}{other}{after}" for other in by_word.get(core.casefold(), [])]

    return replacements


def from_masked_words(decision: Decision, words: Sequence[str]) -> Replacements:
    """Return replacements that the classifier's masked-word head holds most probable; each place takes a pass.

    Args:
        decision: the text and its classifier.
        words: words of the text.

    Raises:
        UnsupportedError: the classifier's checkpoint has no trained masked-word head.
    """
    model, tokenizer = _masked_word_model(decision)

    def replacements(position: int) -> list[str]:
        decision.passes += 1
        text = rewrite(decision.segments, {position: tokenizer.mask_token})
        segments = text if isinstance(text, tuple) else (text,)
        inputs = tokenizer(*segments, truncation=True, return_tensors="pt").to(model.device)
        places = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()
        if not len(places):
            return []  # beyond the longest text
        with torch.inference_mode():
            logits = model(**inputs).logits[0, int(places[0])]
        return _whole_words(tokenizer, logits, words[position])

    return replacements


def _whole_words(tokenizer: Any, logits: torch.Tensor, word: str) -> list[str]:
    """Return the most probable tokens that are whole words, other than the word itself."""
    chosen: list[str] = []
    for token in logits.topk(min(20 * CANDIDATES, len(logits))).indices.tolist():
        other = tokenizer.decode([token]).strip()
        alike = other.casefold() == word.strip(string.punctuation).casefold()
        # The same token at the start of a word, and no piece from inside one.
        whole = tokenizer(f"a {other}", add_special_tokens=False)["input_ids"][-1:] == [token]
        if other.isalpha() and whole and not alike and len(chosen) < CANDIDATES:
            chosen.append(other)
    return chosen


def _masked_word_model(decision: Decision) -> tuple[Any, Any]:
    """Load the masked-word head of the classifier's checkpoint, with its encoder."""
    import transformers

    classifier = decision.classifier
    transformer = transformer_of(classifier)
    lacking = UnsupportedError(
        f"{classifier.name or 'the classifier'}: its checkpoint has no trained masked-word head; give a list of "
        "replacements, or leave exchanged words out"
    )
    if type(transformer.model.config) not in transformers.MODEL_FOR_MASKED_LM_MAPPING or not classifier.name:
        raise lacking
    quiet_transformers()
    with errors_of_loading(classifier.name, "a classifier"):
        loaded: Any = transformers.AutoModelForMaskedLM.from_pretrained(
            classifier.name, output_loading_info=True, trust_remote_code=False, dtype=torch.float32
        )
    model, info = loaded
    if info["missing_keys"] or transformer.tokenizer.mask_token is None:
        raise lacking
    return model.eval().to(classifier.device), transformer.tokenizer
