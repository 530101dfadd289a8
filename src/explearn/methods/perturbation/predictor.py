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
from explearn.model.encoding import Batch

Logits = NDArray[np.float64]

CACHE_BYTES = 2**26
"""Memory for inputs already answered: some 150,000 sentences, or 20,000 texts of 512 sub-tokens."""

_ENTRY_BYTES = 320
"""What an answer takes besides its key: the row, its place in the dictionary and the order of arrival."""


class Predictor:
    """Logits of perturbed texts: each distinct input once, batches of similar length within the token budget.

    Answers are remembered while memory for them lasts (CACHE_BYTES; the oldest go first), so an input is also evaluated
    once when it is asked for again later, or by another text.

    Attributes:
        evaluated: inputs the model has run so far.
    """

    def __init__(self, classifier: Classifier) -> None:
        self.evaluated = 0
        self._classifier = classifier
        self._answers: dict[bytes, Logits] = {}
        self._room = CACHE_BYTES

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
        new = dict(zip(unknown, self._evaluate(requests, list(unknown.values())), strict=True))
        classes = len(self._classifier.labels)
        answers = []
        for of_request in keys:
            logits = np.empty((len(of_request), classes))
            for row, key in enumerate(of_request):
                logits[row] = new[key] if key in new else self._answers[key]
            answers.append(logits)
        # A dictionary keeps the order in which keys came.
        self._answers |= new
        self._room -= sum(len(key) + _ENTRY_BYTES for key in new)
        while self._room < 0:
            oldest = next(iter(self._answers))
            del self._answers[oldest]
            self._room += len(oldest) + _ENTRY_BYTES
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
            longest = max(lengths[i] for i in indices)
            parts.append(self._classifier.logits(self._batch(requests, [places[i] for i in indices], longest)))
            order.extend(indices)

        # Results stay on the device until all batches are queued: one wait, not one a batch.
        with first_token_alone(self._classifier.model) if self._classifier.has_model else nullcontext():
            run_batches(lengths, self._classifier, evaluate)
        logits = np.empty((len(places), len(self._classifier.labels)))
        logits[order] = torch.cat(parts).double().cpu().numpy()
        check_logits(logits, self._classifier.name)
        self.evaluated += len(places)
        return logits

    def _batch(self, requests: Sequence[Inputs], places: Sequence[tuple[int, int]], longest: int) -> Batch:
        shape, least = (len(places), longest), int(self._classifier.has_model)
        ids = np.full(shape, self._classifier.pad_token_id, dtype=np.int64)
        types = np.zeros(shape, dtype=np.int64)
        lengths = np.empty(len(places), dtype=np.int64)
        segments = requests[places[0][0]].token_type_ids is not None
        for target, (number, row) in enumerate(places):
            request = requests[number]
            length = request.lengths[row]
            ids[target, :length] = request.input_ids[row, :length]
            lengths[target] = max(least, length)
            if request.token_type_ids is not None:
                types[target, :length] = request.token_type_ids[row, :length]
        mask = (np.arange(longest) < lengths[:, None]).astype(np.int64)
        ids_, mask_, types_ = (
            torch.from_numpy(array).to(self._classifier.device, non_blocking=True) for array in (ids, mask, types)
        )
        return Batch((), ids_, mask_, types_ if segments else None)
