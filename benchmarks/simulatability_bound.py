"""How far an explanation may raise simulatability: the gain of attention that was fitted to the classes themselves.

    python benchmarks/simulatability_bound.py --task sst2 [--root FOLDER] [--texts 300] [--train 3000]
        [--methods attention_mean,input_x_gradient,integrated_gradients,lime] [--lime-samples 60] [--ig-steps 16]
        [--partitions 6]

--root holds data/classifiers/TASK and data/examples/TASK, as the pipeline leaves them. A student like the metric's
learns the classes that the classifier gives many training texts; its attention on the test texts is then shown to the
metric's students as if it were an explanation. Printed are each method's gain, mean over seeds of the partitions, and
the standard deviation over them; figures only, no limit is checked.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from tqdm.auto import tqdm

from explearn.core.compute import ComputeOptions
from explearn.core.records import Example
from explearn.judge.params import SimulatabilityParams
from explearn.judge.simulatability import simulatability
from explearn.lens.representations import word_embeddings
from explearn.lens.watch import content_mask
from explearn.methods.ivra.objectives import WordIndex
from explearn.methods.ivra.simulatability import BagStudent
from explearn.methods.registry import get_explainer
from explearn.model.classifier import Classifier
from explearn.model.loading import quiet_transformers
from explearn_study.workspace import Workspace

METHODS = ("attention_mean", "input_x_gradient", "integrated_gradients", "lime")
STEPS = 300
"""Of Adam, each on all training texts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--task", required=True)
    parser.add_argument("--texts", type=int, default=300, help="test texts that are explained")
    parser.add_argument("--train", type=int, default=3000, help="training texts that the attention is fitted to")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--lime-samples", type=int, default=60)
    parser.add_argument("--ig-steps", type=int, default=16)
    parser.add_argument("--partitions", type=int, default=6, help="seeds of the metric's partitions")
    options = parser.parse_args()
    quiet_transformers()
    workspace = Workspace(options.root)
    classifier = Classifier.from_pretrained(workspace.classifier(options.task), ComputeOptions(device="cpu"))
    texts = workspace.read_examples(options.task, "test")[: options.texts]
    encodings = classifier.encode(texts)
    settings = {"lime": {"samples": options.lime_samples}, "integrated_gradients": {"steps": options.ig_steps}}
    found = {}
    for method in options.methods.split(","):
        explainer = get_explainer(method, **settings.get(method, {}))
        found[method] = [a.scores for a in explainer.explain(classifier, texts, description=method)]
    student = fitted(classifier, workspace.read_examples(options.task, "train")[: options.train])
    batch = classifier.batch(encodings)
    with torch.no_grad():
        logits, attention = student(batch, content_mask(batch))
    classes = [classifier.labels.index(label) for label in classifier.predict(texts)]
    foretold = float((logits.argmax(-1) == torch.tensor(classes)).float().mean())
    shares = WordIndex.of(batch).pool(attention.exp())
    found["fitted attention"] = [row[: len(e.words)].double().numpy() for row, e in zip(shares, encodings, strict=True)]
    print(f"{options.task}: {len(texts)} texts; the student with fitted attention foretells {foretold:.3f} of them")
    embeddings = word_embeddings(classifier, encodings)
    gains: dict[str, list[float]] = {method: [] for method in found}
    for seed in range(options.partitions):
        for method, result in simulatability(embeddings, classes, found, seed=seed).items():
            gains[method].append(float(result.gain.mean()))
    for method, values in gains.items():
        print(f"  {method:22}{np.mean(values):+.3f} (sd over partitions {np.std(values):.3f})")


def fitted(classifier: Classifier, train: Sequence[Example]) -> BagStudent:
    """A student taught the classifier's answers to many texts, without explanations."""
    batch = classifier.batch(classifier.encode(train))
    classes = torch.tensor([classifier.labels.index(label) for label in classifier.predict(train)])
    content = content_mask(batch)
    table = classifier.model.get_input_embeddings().weight.detach().float()
    params = SimulatabilityParams()
    student = BagStudent(table, batch.input_ids[content], len(classifier.labels), params.dimensions)
    optimiser = torch.optim.Adam(student.parameters(), lr=params.learning_rate)
    for _ in tqdm(range(STEPS), desc="fit attention", unit="step"):
        logits, _ = student(batch, content)
        optimiser.zero_grad()
        functional.cross_entropy(logits, classes).backward()
        optimiser.step()
    return student


if __name__ == "__main__":
    main()
