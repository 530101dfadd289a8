"""Labelled texts as (text, label) pairs, for what takes texts and labels apart."""

from explearn.methods.base.task import ListedTask


def apart(pairs):
    """The texts, and their labels."""
    return [text for text, _ in pairs], [label for _, label in pairs]


def listed(of, pairs, validation=(), **options):
    """A task of these pairs."""
    texts, labels = apart(pairs)
    others, other_labels = apart(validation)
    return ListedTask(of, texts, others, labels=labels, validation_labels=other_labels, **options)


def fit(method, of, pairs, rationales=None, validation=(), **options):
    """A method trained on these pairs."""
    texts, labels = apart(pairs)
    others, other_labels = apart(validation)
    return method.fit(of, texts, rationales, others, labels=labels, validation_labels=other_labels, **options)
