"""Processor time of methods here against the library that each stands for, on the same texts, one thread.

    OMP_NUM_THREADS=1 python benchmarks/library_times.py [--classifier FOLDER] [--texts 3] [--runs 5]

LIME, Kernel SHAP and SHAP, of a function of texts and of a transformer, both sides with the same number of samples.
The library gets the function itself, or a function that tokenises strings and runs the model 64 at a time. The ratio is
taken pair by pair; its median is printed. Exits with 1 where a ratio is above 1.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import shap
import torch
from lime.lime_text import LimeTextExplainer
from numpy.typing import NDArray

import explearn
from _timing import CORPUS, load_classifier, load_texts, paired
from explearn.predictors.function import FunctionPredictor
from explearn.predictors.predictor import Predictor

LABELS = ["no", "yes"]
SAMPLES = 500

Proba = Callable[[list[str]], NDArray[np.float64]]


def by_words(texts: list[str]) -> NDArray[np.float64]:
    """A function of texts that costs next to nothing: a share of long words."""
    rows = []
    for text in texts:
        words = text.split()
        share = sum(len(word) > 4 for word in words) / (len(words) + 1)
        rows.append([1 - share, share])
    return np.array(rows)


def by_model(classifier: Predictor) -> Proba:
    """What a user of the libraries writes around a model of transformers."""
    model = classifier.transformer.model
    tokenizer = classifier.transformer.tokenizer

    def predict_proba(texts: list[str]) -> NDArray[np.float64]:
        rows = []
        for start in range(0, len(texts), 64):
            part = list(texts[start : start + 64])
            batch = tokenizer(part, return_tensors="pt", padding=True, truncation=True)
            with torch.inference_mode():
                rows.append(model(**batch).logits.softmax(-1).numpy())
        return np.concatenate(rows).astype(np.float64)

    return predict_proba


def library_lime(text: str, predict_proba: Proba, _: Any) -> None:
    explainer = LimeTextExplainer(
        class_names=LABELS, bow=False, split_expression=r"\s+", mask_string="", random_state=0
    )
    explainer.explain_instance(text, predict_proba, labels=(1,), num_features=len(text.split()), num_samples=SAMPLES)


def library_kernel_shap(text: str, predict_proba: Proba, mask: Callable[[str], str]) -> None:
    words = text.split()
    masks = list(map(mask, words))

    def explained(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        copies = []
        for row in rows:
            copies.append(" ".join([word if kept else mask for word, mask, kept in zip(words, masks, row)]))  # noqa: B905
        return predict_proba(copies)[:, 1]

    explainer = shap.KernelExplainer(explained, np.zeros((1, len(words))))
    explainer.shap_values(np.ones(len(words)), nsamples=SAMPLES, l1_reg=False, silent=True)


def library_shap(text: str, predict_proba: Proba, mask: Any) -> None:
    masker = shap.maskers.Text(mask)
    explainer = shap.Explainer(lambda copies: predict_proba(list(copies)), masker, seed=0)
    explainer([text], max_evals=SAMPLES, silent=True)


def whole_words(string: str, return_offsets_mapping: bool = False) -> dict[str, Any]:
    """Split a string for shap's masker, as its documentation does for functions."""
    spans = [match.span() for match in re.finditer(r"\S+\s*", string)]
    return {"input_ids": [string[start:end] for start, end in spans], "offset_mapping": spans}


def cases(classifier: Predictor) -> list[tuple[str, Predictor, Proba, dict[str, Any]]]:
    """Name, what is explained, the function that the libraries get, and what each of them masks with."""
    function = FunctionPredictor(by_words, LABELS, mask="UNKWORDZ")
    tokenizer = classifier.transformer.tokenizer

    def by_piece(word: str) -> str:
        return " ".join([tokenizer.mask_token] * len(tokenizer.tokenize(word)))

    masks = {"lime": None, "kernel_shap": by_piece, "shap": tokenizer}
    return [
        ("function", function, by_words, {"lime": None, "kernel_shap": lambda _: "UNKWORDZ", "shap": whole_words}),
        ("model", classifier, by_model(classifier), masks),
    ]


LIBRARIES = {"lime": library_lime, "kernel_shap": library_kernel_shap, "shap": library_shap}
OPTIONS: dict[str, dict[str, Any]] = {
    "lime": {"samples": SAMPLES},
    "kernel_shap": {"samples": SAMPLES},
    "shap": {"max_evals": SAMPLES},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--texts", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", help="function or model")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    texts = load_texts(CORPUS, arguments.texts)
    above = False
    for name, predictor, predict_proba, masks in cases(load_classifier(arguments.classifier)):
        if arguments.only not in (None, name):
            continue
        for method, library in LIBRARIES.items():
            explainer = explearn.get_explainer(method, **OPTIONS[method])

            def ours(explainer: Any = explainer, predictor: Predictor = predictor) -> None:
                explainer.explain(predictor, texts, [1] * len(texts))

            def theirs(library: Any = library, predict_proba: Proba = predict_proba, mask: Any = masks[method]) -> None:
                for text in texts:
                    library(text, predict_proba, mask)

            ours()
            theirs()
            ratio = paired(ours, theirs, arguments.runs, time.process_time)
            above |= ratio.median > 1
            print(f"{name:<9} {method:<12} {ratio}", flush=True)
    sys.exit(above)


if __name__ == "__main__":
    main()
