"""DeepLIFT and Deep SHAP against direct calls of captum, and what captum cannot do."""

import numpy as np
import pytest
import tiny
import torch
from captum import attr
from gradient_cases import BASELINES, CASES, FEW, TEXTS, close, double_classifier, embedded, empty, explained
from torch import nn

from explearn import UnsupportedError
from explearn.methods.gradient.embedded import reference_embeddings

pytestmark = pytest.mark.filterwarnings("ignore:Setting forward, backward hooks")


class Module(nn.Module):
    """Word embeddings to an output, as captum's DeepLift wants it."""

    def __init__(self, of, forward):
        super().__init__()
        self.model = of.model
        self.forward = forward


def references(of, encoding, count):
    """(count, tokens, d) of one text."""
    batch = of.batch([encoding])
    embeddings = of.model.get_input_embeddings()(batch.input_ids)
    return torch.cat(list(reference_embeddings(of, batch, embeddings, count, 13)))


@pytest.mark.parametrize(("kind", "classes", "output"), CASES)
class TestEqualToCaptum:
    @pytest.mark.parametrize("baseline", BASELINES)
    def test_deep_lift(self, kind, classes, output, baseline):
        of = double_classifier(kind, classes)
        for text, actual, target in explained("deep_lift", of, TEXTS, baseline=baseline, output=output):
            encoding, embeddings, forward = embedded(of, text, output)
            scores, delta = attr.DeepLift(Module(of, forward)).attribute(
                embeddings.requires_grad_(),
                empty(of, encoding, embeddings.detach(), baseline),
                target=target,
                return_convergence_delta=True,
            )
            close(actual.token_scores, scores.sum(-1)[0][encoding.positions])
            assert actual.completeness_error == pytest.approx(float(delta.abs()), abs=1e-5)

    def test_deep_shap(self, kind, classes, output):
        of = double_classifier(kind, classes)
        for text, actual, target in explained("deep_shap", of, FEW, references=5, output=output):
            encoding, embeddings, forward = embedded(of, text, output)
            scores, delta = attr.DeepLiftShap(Module(of, forward)).attribute(
                embeddings, references(of, encoding, 5), target=target, return_convergence_delta=True
            )
            close(actual.token_scores, scores.sum(-1)[0][encoding.positions])
            assert actual.completeness_error == pytest.approx(float(delta.mean().abs()), abs=1e-5)


def test_a_network_of_linear_maps_and_rescaled_activations_is_complete():
    """BERT of no blocks, with the embeddings' layer norm taken out: linear maps and the pooler's Tanh."""
    of = tiny.make_classifier("bert", 3)
    of.model.bert.encoder.layer = nn.ModuleList()
    of.model.bert.embeddings.LayerNorm = nn.Identity()
    # The mean over tokens, so that more than [CLS] counts.
    of.model.bert.pooler.register_forward_pre_hook(lambda _m, args: (args[0].mean(1, keepdim=True),))
    for name in ("deep_lift", "deep_shap"):
        # One by one: padding would count in the mean.
        actual = [explained(name, of, [text])[0][1] for text in TEXTS]
        assert max(a.completeness_error for a in actual) < 1e-5
        assert max(np.abs(a.scores).max() for a in actual) > 1e-2


class TestReferences:
    def test_the_first_three_are_empty_and_the_others_shuffled(self):
        of = double_classifier("roberta")
        for text in FEW:
            encoding, embeddings, _ = embedded(of, text)
            actual = references(of, encoding, 6)
            for row, baseline in enumerate(("mask", "pad", "zero")):
                torch.testing.assert_close(actual[row : row + 1], empty(of, encoding, embeddings, baseline))
            for row in actual[3:]:
                assert sorted(row[encoding.positions].tolist()) == sorted(embeddings[0, encoding.positions].tolist())


@pytest.mark.parametrize("name", ["deep_lift", "deep_shap"])
class TestRefusals:
    @pytest.mark.parametrize("activation", ["relu", "tanh"])
    def test_an_activation_that_albert_s_blocks_share(self, name, activation):
        of = tiny.make_classifier("albert")
        of.model = tiny.model("albert", hidden_act=activation).requires_grad_(False)
        with pytest.raises(
            UnsupportedError, match=r"of this 'albert' model \(.*used more than once.*use integrated_gradients"
        ):
            explained(name, of, ["lazy dog"])
        assert tiny.hooks(of.model) == 0

    def test_a_softmax_module(self, name):
        of = tiny.make_classifier()
        of.model.classifier = nn.Sequential(of.model.classifier, nn.Softmax(-1))
        with pytest.raises(UnsupportedError, match=r"nn\.Softmax modules mixes the texts of a batch"):
            explained(name, of, ["lazy dog"])
