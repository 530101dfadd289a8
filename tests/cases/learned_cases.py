"""All learned methods, trained as briefly as can be."""

import numpy as np
import tiny
from listed import listed

from explearn.methods.aml.faml import FAML
from explearn.methods.aml.paml import PAML
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.marker.explainer import Marker
from explearn.methods.reader.explainer import Reader

TEXTS = [*tiny.TEXTS, *tiny.CORPUS[:5]]


def short_task(of):
    """Texts with the labels that the classifier gives them; every second word is evidence."""
    data = list(zip(TEXTS, of.predict(TEXTS), strict=True))
    gold = [np.arange(len(text.split())) % 2 == 0 for text in TEXTS]
    return listed(of, data, data[:6], gold=gold)


def trained_for_attention(task):
    """The two that learn from the classifier's attention and hidden states, without changing the classifier."""
    return [Marker(protocol="in_domain", epochs=1).learn(task), Reader(epochs=1, samples=4, width=8).learn(task)]


def all_trained(task, folder, **paml):
    """Each method with the classifier that it explains; pAML, with these options, is saved to the folder."""
    marker, reader = trained_for_attention(task)
    start = PAML(**{"backbone": "states", "epochs": 1, "batch_size": 4, **paml}).learn(task)
    start.save_pretrained(folder)
    methods = {"marker": marker, "reader": reader, "paml": start}
    methods["faml"] = FAML.from_pretrained(folder, steps=1, samples=2)
    explained = {name: (method, task.classifier) for name, method in methods.items()}
    for made in (IvRA, SMaT):
        method = made(criteria=["cons"], schedule={"epochs": 1, "learning_rate": 1e-4}).learn(task)
        explained[method.name] = (method, method.classifier)
    return explained
