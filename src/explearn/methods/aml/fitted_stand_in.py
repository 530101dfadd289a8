"""A stand-in for masked tokens that acts as if they had been left out, for classifiers without a mask token.

Such a classifier has seen no token that says nothing. An unknown token, which the paper puts in its place (section
3.2), may never have been seen in training, and then says something arbitrary: a text of nothing else can be any class
with certainty. G then learns what differs from that class, and not what the text's class rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from explearn.core.errors import ModelError
from explearn.methods.aml.loss import embedded_logits
from explearn.methods.aml.masks import first_stand_in
from explearn.model.batching import budget_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding

STEPS = 100
"""Steps of Adam."""
TEXTS = 32
"""Texts a step."""
SHARE = 0.6
"""Largest share of a text's words that is left out."""
RATE = 0.5
"""Learning rate, in root mean squares of the entries of the word embeddings."""


def fit_stand_in(
    classifier: Classifier, texts: Sequence[Encoding], watched: Sequence[Encoding], seed: int
) -> tuple[torch.Tensor, list[float]]:
    """The embedding m for which the classifier answers to masked words as it does where they are left out.

        min over m of the mean of KL(F(x without R) || F(x with m in the place of each token of R))

    over texts x and sets R of its words, drawn evenly, of a share drawn evenly between 0 and SHARE. It starts at the
    embedding of the mask token, of the unknown one, or at the mean of all where there is neither.

    Args:
        texts: those to fit it on; texts of one word are left out. watched: others, on some of which the mean is taken
            before and after.
        seed: of what is drawn.

    Returns m, (e,), and that mean on `watched` before the first step and after the last; none where every text has one
    word, and m is where it starts.

    Raises ModelError where the mean is not finite.
    """
    draws = np.random.default_rng(seed)
    table: Any = classifier.model.get_input_embeddings()
    start = first_stand_in(classifier).detach().float()
    long = [text for text in texts if len(text.words) > 1]
    same = [text for text in watched if len(text.words) > 1][: 2 * TEXTS]
    if not long or not same:
        return start.clone(), []
    stand_in = nn.Parameter(start.clone())
    optimizer = torch.optim.Adam([stand_in], lr=RATE * float(table.weight.detach().float().square().mean().sqrt()))
    judged = [_drawn(text, draws) for text in same]

    @torch.no_grad()
    def mean() -> float:
        return sum(float(part) for part in _differences(classifier, stand_in, same, judged))

    before = mean()
    for _ in range(STEPS):
        chosen = [long[int(i)] for i in draws.integers(len(long), size=TEXTS)]
        optimizer.zero_grad()
        for part in _differences(classifier, stand_in, chosen, [_drawn(text, draws) for text in chosen]):
            part.backward()
        optimizer.step()
    after = mean()
    if not np.isfinite([before, after]).all():
        raise ModelError("pAML: the classifier's answers are not finite; expected a classifier with finite weights")
    return stand_in.detach().clone(), [before, after]


def _drawn(text: Encoding, draws: np.random.Generator) -> set[int]:
    """Words to leave out, one at least."""
    count = max(1, round(len(text.words) * draws.uniform(0, SHARE)))
    order: NDArray[np.int64] = draws.permutation(len(text.words))
    return set(order[:count].tolist())


def _differences(
    classifier: Classifier, stand_in: torch.Tensor, texts: Sequence[Encoding], words: Sequence[set[int]]
) -> Any:
    """Parts of the mean over texts of the divergence, one for each batch that fits the classifier's budget."""
    table: Any = classifier.model.get_input_embeddings()
    for indices in _batches(classifier, texts):
        batch = classifier.batch([texts[i] for i in indices])
        expected = _log_probabilities(classifier, [texts[i].delete(words[i]) for i in indices])
        with torch.no_grad():
            embeddings = table(batch.input_ids)
        gone = torch.zeros(batch.input_ids.shape, dtype=torch.bool)
        for row, i in enumerate(indices):
            gone[row, : len(texts[i])] = torch.tensor([word in words[i] for word in texts[i].word_ids])
        masked = torch.where(gone[..., None].to(embeddings.device), stand_in, embeddings)
        found = classifier.softmax_logits(embedded_logits(classifier, batch, masked)).log_softmax(-1)
        yield nn.functional.kl_div(found, expected, reduction="sum", log_target=True) / len(texts)


@torch.no_grad()
def _log_probabilities(classifier: Classifier, texts: Sequence[Encoding]) -> torch.Tensor:
    """Natural logarithms of the classes' probabilities, (texts, C). Texts of one length, shortened, have several."""
    found: dict[int, torch.Tensor] = {}
    for indices in _batches(classifier, texts):
        logits = classifier.logits(classifier.batch([texts[i] for i in indices]))
        found.update(zip(indices, classifier.softmax_logits(logits).log_softmax(-1), strict=True))
    return torch.stack([found[i] for i in range(len(texts))])


def _batches(classifier: Classifier, texts: Sequence[Encoding]) -> Iterator[list[int]]:
    return budget_batches([len(text) for text in texts], classifier.max_tokens, classifier.same_length)
