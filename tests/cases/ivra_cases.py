"""What several tests of IvRA share."""

import functools

import numpy as np
import tiny
import torch

from explearn import Example
from explearn.methods.base.task import ListedTask
from explearn.methods.ivra.attention import HeadAttention, InterpretableAttention, size_of
from explearn.methods.ivra.explainer import IvRA
from explearn.methods.ivra.simulatability import SimulatabilityLoss
from explearn.methods.ivra.training import JointTrainer

EMPTY = "\u200b"
"""A word of which the tokenizer leaves no piece."""


MODULES = {"ivra": InterpretableAttention, "smat": HeadAttention}


NORMS = ("softmax", "sparsemax")


def module_of(classifier, name="ivra", norm="softmax"):
    """With weights away from their first values."""
    actual = MODULES[name](*size_of(classifier.model), norm=norm)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in actual.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator)
    return actual


def examples(split, count, seed=0):
    """The word 'beautiful' or 'lazy', somewhere among others, decides."""
    rng = np.random.default_rng(seed + len(split))
    others = ["the", "fox", "dog", "sea", "guide", "castle", "and", "while", "morning", "tide"]
    rows = []
    for number in range(count):
        words = [str(w) for w in rng.choice(others, size=6)]
        words[int(rng.integers(6))] = ("lazy", "beautiful")[number % 2]
        label = ("no", "yes")[number % 2]
        rows.append(Example(id=f"{split}{number}", words=tuple(words), label=label, split=split, task="toy"))
    return rows


QUICK = {"epochs": 6, "batch_size": 8, "learning_rate": 1e-3, "module_learning_rate": 3e-2, "accuracy_tolerance": 1.0}


@functools.cache
def learned_once():
    return IvRA(criteria=["comp", "suff"], schedule=QUICK).learn(
        ListedTask(tiny.classifier(), examples("train", 48), examples("validation", 16))
    )


def trainer_of(settings, train, classifier, measured=((0.0, {"a": 0.0}),)):
    """Of a classifier and a module whose weights all learn; validation says what was measured, the last again."""
    classifier.model.requires_grad_(True)
    left = list(measured)
    generator = torch.Generator().manual_seed(settings.seed)
    module = module_of(classifier)
    return JointTrainer(
        classifier, module, train, None, settings, generator, None, lambda: left.pop(0) if len(left) > 1 else left[0]
    )


def simulatability_of(classifier, texts):
    encodings = classifier.read(texts)
    generator = torch.Generator().manual_seed(0)
    return SimulatabilityLoss(classifier, module_of(classifier), encodings, generator)


def undecided(texts, kind="bert", classes=2):
    """A classifier that gives these texts more than one class: its logits are 0 in the mean over them."""
    classifier = tiny.make_classifier(kind, classes)
    (*_, head) = (m for m in classifier.model.modules() if isinstance(m, torch.nn.Linear) and m.out_features == classes)
    with torch.no_grad():
        head.bias -= classifier.logits(tiny.batch(classifier, texts)).mean(0)
    assert len(set(classifier.predict(texts))) > 1
    return classifier
