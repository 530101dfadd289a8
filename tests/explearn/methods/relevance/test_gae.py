"""Methods on attention and hidden states with their gradients: gae, mgae, cam, grad_cam, cat, attcat.

The gradients themselves are tested in tests/explearn/lens/test_watch.py.
"""

from types import SimpleNamespace

import golden
import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn.methods.relevance.gae import specialised


@pytest.mark.parametrize("file", [golden.PREDICTED, golden.OTHER_CLASS], ids=["predicted", "other_class"])
@pytest.mark.parametrize(("precision", "together"), [("float64", False), ("float64", True), ("float32", True)])
def test_scores_equal_the_original_code_s(precision, file, together):
    """In a padded batch the original's Grad-CAM would be another, since its extremes and means count padding, too."""
    for name in ("cat", "attcat", "cat__special_masked", "attcat__special_masked"):
        method, _, mode = name.partition("__")
        explainer = explearn.get_explainer(method, mask_special=mode == "special_masked")
        tolerance = 1e-9 if precision == "float64" else 1e-4
        golden.assert_reproduces(explainer, name, tolerance, precision, file, together, special=True)
    explainer = explearn.get_explainer("grad_cam", normalisation="matrix")
    tolerance = 1e-9 if precision == "float64" else 2e-4
    golden.assert_reproduces(explainer, "attention_gradcam", tolerance, precision, file, together)


class TestMaskedGAE:
    def test_roles_of_heads_made_for_them(self):
        """Ten tokens, [CLS] first, [SEP] last. Even attention puts 1/10 on the next token and 2/10 on special ones, so
        half of the rest is reached at 0.55 and 0.6.
        """
        tokens = 10
        even = torch.full((tokens, tokens), 1 / tokens)
        eye = torch.eye(tokens)
        following = eye.roll(1, dims=1)
        before = eye.roll(-1, dims=1)
        last = torch.zeros(tokens, tokens)
        last[:, -1] = 1
        special = last.clone()
        special[:, 0] = special[:, -1] = 0.5

        def part(weight, role):
            """`weight` of a role, the rest on the token itself."""
            return weight * role + (1 - weight) * eye

        expected = [
            (following, True),
            (before, True),
            (part(0.56, following), True),
            (part(0.54, following), False),
            (part(0.56, before), True),
            (part(0.54, before), False),
            (0.5 * following + 0.5 * before, False),
            (last, True),
            (part(0.61, special), True),
            (part(0.59, last), False),
            (even, False),
            (eye, False),
        ]
        heads = torch.stack([head for head, _ in expected])
        # Special tokens are no queries: they attend to themselves here, which is neither a neighbour nor the text.
        heads[:, [0, -1]] = eye[[0, -1]]
        # The second text is shorter: what stands behind its eight tokens must not count.
        shorter = torch.rand(heads.shape)
        shorter[:, :8, :8] = 1 / 8
        shorter[:, :8, 8:] = 0
        actual = specialised(torch.stack([heads, shorter]), batch_of_lengths(10, 8), 0.5)
        assert actual[0].tolist() == [masked for _, masked in expected]
        assert not actual[1].any()
        # In a text of one word two thirds of even attention are on special tokens, and it is no role.
        assert not specialised(torch.full((1, 1, 3, 3), 1 / 3), batch_of_lengths(3), 0.5).any()


def batch_of_lengths(*lengths):
    """Texts of so many tokens, a special one at either end of each."""

    class Ends(SimpleNamespace):
        def __len__(self):
            return len(self.special)

    longest = max(lengths)
    return SimpleNamespace(
        input_ids=torch.zeros(len(lengths), longest, dtype=torch.int64),
        attention_mask=(torch.arange(longest) < torch.tensor(lengths)[:, None]).long(),
        encodings=[Ends(special=(True, *([False] * (n - 2)), True)) for n in lengths],
    )


@pytest.mark.parametrize("name", ["cat", "attcat"])
def test_masking_changes_neither_the_class_explained_nor_its_probability(name):
    of = tiny.make_classifier("electra", 2)
    (plain,) = explearn.get_explainer(name).explain(of, tiny.TEXTS[:1])
    (masked,) = explearn.get_explainer(name, mask_special=True).explain(of, tiny.TEXTS[:1])
    assert masked.target == masked.predicted == plain.predicted
    assert masked.probability == pytest.approx(plain.probability, abs=1e-5)
    assert not np.allclose(plain.scores, masked.scores, rtol=1e-2)
