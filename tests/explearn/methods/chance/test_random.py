import numpy as np
import pytest
import tiny
from scipy.stats import kstest

import explearn

WORDS = 40
TEXTS = [" ".join(f"a{number}b{word}"[-3:] for word in range(WORDS // 8)) for number in range(500)]


@pytest.fixture(scope="module")
def drawn():
    attributions = explearn.get_explainer("random", seed=1).explain(tiny.make_classifier(max_tokens=8192), TEXTS)
    return np.concatenate([attribution.scores for attribution in attributions])


def test_scores_are_uniform(drawn):
    assert kstest(np.unique(drawn), "uniform").pvalue > 0.01


def test_all_pieces_of_a_word_share_its_score():
    of = tiny.classifier("roberta")
    attribution = explearn.explain(of, "unbelievably whatsoever", "random")
    assert len(attribution.tokens) > 2
    assert set(attribution.token_scores) == set(attribution.scores)


def scores(seed, text, kind="bert"):
    attribution = explearn.explain(tiny.classifier(kind), text, "random", seed=seed)
    return attribution.scores.tolist()


def test_the_draw_is_by_seed_and_text_alone():
    assert scores(1, "lazy dog") == scores(1, "lazy dog") == scores(1, "lazy dog", "roberta")
    assert scores(1, "lazy dog") != scores(2, "lazy dog")
    assert scores(1, "lazy dog") != scores(1, "lazy fox")


def test_every_word_has_the_same_score_and_is_chosen():
    of = tiny.classifier("bert")
    attributions = explearn.explain(of, ["lazy dog", "a quick fox"], "every_word")
    assert [text.scores.tolist() for text in attributions] == [[1, 1], [1, 1, 1]]
    marks = [[True, False], [False, False, True]]
    figures = explearn.evaluate(of, attributions, marks, ["f1", "f1_every_word"]).figures["every_word"]
    # 2 of 5 words: precision 2/5, recall 1.
    assert figures["f1"] == figures["f1_every_word"] == pytest.approx(4 / 7)
