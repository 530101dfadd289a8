"""GIM against a BERT written out by hand, and its rule for softmax."""

import copy

import pytest
import tiny
import torch
from hand_written import HandWritten, half

from explearn.methods.relevance.backward import plain_rule
from explearn.methods.relevance.gim import temperature_rule

TEXT = tiny.TEXTS[3]


def test_softmax_by_hand():
    """Logits of 0 and log 9 at temperature 2: shares of 1/4 and 3/4. Gradients of 2 and -2, mean -1: 3/4 and -3/4."""
    x = torch.tensor([0.0, 9.0]).log1p()
    x[1] = torch.tensor(9.0).log()
    _, passed = temperature_rule(torch.tensor([2.0, -2.0]), x.softmax(-1), x, None)
    torch.testing.assert_close(passed, torch.tensor([0.75, -0.75]))


def test_a_saturated_softmax_still_passes_a_gradient():
    x = torch.tensor([0.0, 12.0], requires_grad=True)
    (plain,) = torch.autograd.grad(x.softmax(-1)[0], x)
    _, passed = temperature_rule(torch.tensor([1.0, 0.0]), x.softmax(-1), x.detach(), None)
    assert passed[0] > 100 * plain[0] > 0


def test_an_activation_that_multiplies_keeps_its_own_gradient():
    def swish(x):
        return x * x.sigmoid()

    x = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)
    expected = x.sigmoid() * (1 + x * (1 - x.sigmoid()))
    torch.testing.assert_close(plain_rule(2 * torch.ones_like(x), swish(x), x, swish)[1], 2 * expected)


def warm(x):
    """softmax(x), with the gradient of 2 softmax(x / 2)."""
    warmer = 2 * (x / 2).softmax(-1)
    return x.softmax(-1).detach() + warmer - warmer.detach()


@pytest.mark.parametrize("baseline", ["zero", "pad"])
def test_scores_are_those_of_the_model_written_out(baseline):
    of = tiny.classifier("bert", 3)
    of = of.with_model(copy.deepcopy(of.model).double())
    table = of.model.bert.embeddings.word_embeddings.weight
    ids = tiny.batch(of, [TEXT]).input_ids[0]
    words = table[ids].detach().requires_grad_()
    written = HandWritten(of.model, warm, lambda a, b: half(a @ b), lambda function, x: function(x))
    logits = written.logits(words)
    (gradient,) = torch.autograd.grad(logits[1], words)
    moved = words - (table[of.pad_token_id] if baseline == "pad" else 0)
    expected = (gradient * moved).sum(-1).detach()
    expected[[0, -1]] = 0
    actual = tiny.score("gim", of, [TEXT], [1], baseline=baseline)
    torch.testing.assert_close(actual.scores[0], expected)
    torch.testing.assert_close(actual.logits[0], logits.detach())
