"""LibraGrad against a BERT written out by hand; inputs and biases add up to the logit on every architecture."""

import copy

import pytest
import tiny
import torch
from hand_written import HandWritten

KINDS = (*tiny.ARCHITECTURES, "xlm-roberta", "deberta-v2", "mpnet", "modernbert", "modernbert mean", *tiny.DECODERS)
MORE = ("eurobert", "gpt_neox", "phi3", "qwen3_moe")
TEXTS = [*tiny.TEXTS, *tiny.PAIRS]


def biased(kind, dtype=torch.float32):
    """A classifier none of whose biases is 0."""
    of = tiny.classifier(kind, 3)
    model = copy.deepcopy(of.model).to(dtype)
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return of.with_model(model)


def gate(function, x):
    return x * (function(x) / x).detach()


def test_scores_are_those_of_the_model_written_out():
    of = biased("bert", torch.float64)
    ids = tiny.batch(of, TEXTS[3:4]).input_ids[0]
    written = HandWritten(of.model, lambda x: x.softmax(-1).detach(), torch.matmul, gate)
    logits = written.logits(of.model.bert.embeddings.word_embeddings.weight[ids].detach().requires_grad_())
    parts = [*written.inputs, *written.biases]
    gradients = torch.autograd.grad(logits[2], parts, materialize_grads=True)
    expected = torch.zeros(len(ids), dtype=torch.float64)
    for part, gradient in zip(parts, gradients, strict=True):
        if part.ndim == 2:  # of the tokens; the others are of the head
            expected += (part * gradient).sum(-1).detach()
    actual = tiny.score("libragrad", of, TEXTS[3:4], [2])
    torch.testing.assert_close(actual.scores[0], expected)
    torch.testing.assert_close(actual.logits[0], logits.detach())


@pytest.mark.parametrize("kind", [*KINDS, *MORE])
def test_the_input_and_all_biases_add_up_to_the_logit(kind):
    of = biased(kind)
    targets = [i % 3 for i in range(len(TEXTS))]
    found = tiny.score("libragrad", of, TEXTS, targets)
    explained = found.logits.gather(1, found.targets[:, None])
    assert found.completeness_error.max() < 1e-4 * explained.abs().max()


def test_without_the_rules_they_do_not(monkeypatch):
    of = biased("bert")
    monkeypatch.setattr("explearn.methods.relevance.backward.ChangedBackward.changed", False)
    assert tiny.score("libragrad", of, TEXTS).completeness_error.min() > 0.01
