"""The classifier's answers to perturbed texts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.finite import check_logits
from explearn.lens.anatomy import first_token_alone
from explearn.methods.perturbation.inputs import Inputs
from explearn.model.batching import run_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import padded_batch

Logits = NDArray[np.float64]

REMEMBERED = 2**16
"""Inputs whose answers are held at most: 200 MB where each has 512 sub-tokens."""


class Predictor:
    """Logits of perturbed texts: each distinct input once, batches of similar length within the token budget.

    Answers are remembered until there are REMEMBERED, so an input is also evaluated once when it is asked for again
    later, or by another text.
    """

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self._answers: dict[bytes, Logits] = {}

    def __call__(self, requests: Sequence[Inputs]) -> list[Logits]:
        """float64 logits, (n, C) for each request of n rows.

        Raises ModelError for logits that are not finite.
        """
        keys = [request.keys() for request in requests]
        unknown: dict[bytes, tuple[int, int]] = {}
        for number, of_request in enumerate(keys):
            for row, key in enumerate(of_request):
                if key not in self._answers:
                    unknown.setdefault(key, (number, row))
        self._answers |= zip(unknown, self._evaluate(requests, list(unknown.values())), strict=True)
        classes = len(self._classifier.labels)
        answers = [np.array([self._answers[key] for key in of_request]).reshape(-1, classes) for of_request in keys]
        if len(self._answers) > REMEMBERED:
            self._answers.clear()
        return answers

    @torch.inference_mode()
    def _evaluate(self, requests: Sequence[Inputs], places: Sequence[tuple[int, int]]) -> Logits:
        """Logits of the rows at `places`, (request, row) each, in their order."""
        if not places:
            return np.empty((0, len(self._classifier.labels)))
        # Of no token, one of padding is read, as `collate` has it. A function of texts is asked for the empty text.
        least = int(self._classifier.has_model)
        lengths = [max(least, int(requests[number].lengths[row])) for number, row in places]
        order: list[int] = []
        parts: list[torch.Tensor] = []

        def evaluate(indices: list[int]) -> None:
            rows = [(requests[number], row) for number, row in (places[i] for i in indices)]
            ids = [request.input_ids[row, : request.lengths[row]] for request, row in rows]
            types = None
            if rows[0][0].token_type_ids is not None:
                types = [request.token_type_ids[row, : request.lengths[row]] for request, row in rows]  # type: ignore[index]
            batch = padded_batch(ids, types, self._classifier.pad_token_id, self._classifier.device, least)
            parts.append(self._classifier.logits(batch))
            order.extend(indices)

        # Results stay on the device until all batches are queued: one wait, not one a batch.
        with first_token_alone(self._classifier.model) if self._classifier.has_model else nullcontext():
            run_batches(lengths, self._classifier, evaluate)
        logits = np.empty((len(places), len(self._classifier.labels)))
        logits[order] = torch.cat(parts).double().cpu().numpy()
        check_logits(logits, self._classifier.name)
        return logits
