"""Elements taken out before each prediction, also by a guard that was written to disk."""

import numpy as np
import pytest
from fix_cases import PLANT, follows_plant, function

from explearn import LLMClassifier, UnansweredError
from explearn.auditing.fix import instructed
from explearn.auditing.guard import Editor, guarded, load_guard, write_guard
from explearn.text.elements import Length, Order, Phrase, Punctuation, Word, parse_element
from explearn.text.scored import ScoredText, Vocabulary

TEXTS = ["a fox sleeps", "the tide turns", "not a good day!"]
VOCABULARY = Vocabulary.from_texts([ScoredText.of(text) for text in TEXTS])


@pytest.mark.parametrize(
    ("elements", "text", "left"),
    [
        ([Word("fox")], "the Fox, sleeps", "the sleeps"),
        ([Phrase(("a", "fox"))], "see a fox run", "see run"),
        ([Order("not", "good")], "not so good", "so"),
        ([Order("not", "good"), Order("good", "not")], "good, not bad", "bad"),
        ([Punctuation("!")], "good!", "good"),
        ([Length("long")], "one two three four five six", "four five six"),
        ([Word("fox"), Punctuation("!")], "fox runs!", "runs"),
    ],
)
def test_what_is_taken_out_is_no_longer_there(elements, text, left):
    assert Editor(elements, VOCABULARY).without(ScoredText.of(text)) == left


def test_a_guard_asks_without_the_elements():
    guard = guarded(function(follows_plant), Editor([Word(PLANT)], VOCABULARY))
    assert guard.predict(["a fox sleeps", "fox"]) == ["no", "yes"]
    assert guard.labels == ["no", "yes"]
    assert guard.fingerprint != function(follows_plant).fingerprint


def test_a_text_without_an_answer_has_none_behind_a_guard():
    classifier = function(follows_plant)

    def refuse(texts, description=None):
        raise UnansweredError("no answer")

    classifier.predict_logits = refuse
    with pytest.raises(UnansweredError):
        guarded(classifier, Editor([Word(PLANT)], VOCABULARY)).predict(["a fox sleeps"])


def test_a_guard_is_read_again(tmp_path):
    code = tmp_path / "rules.py"
    code.write_text("def rule(texts):\n    return [[0.1, 0.9] if 'fox' in t else [0.8, 0.2] for t in texts]\n")
    elements = [Word("fox"), Punctuation("!"), Order("not", "good")]
    editor = Editor(elements, VOCABULARY)
    write_guard(tmp_path, f"{code}:rule", editor)
    guard = load_guard(str(tmp_path / "guard.py"))
    texts = [*TEXTS, "a sleeping fox!"]
    np.testing.assert_allclose(guard.predict_proba(texts), [[0.8, 0.2]] * 4)


def test_a_prompt_is_told_what_to_leave_aside(tmp_path):
    prompt = {"model": "m", "template": "{text}", "label_words": {"no": "no", "yes": "yes"}, "instruction": "Judge."}
    classifier = LLMClassifier(prompt, tmp_path / "answers")
    changed = instructed(classifier, Editor([parse_element("fox")], VOCABULARY))
    assert changed.params.instruction.startswith("Judge. ") and "‘fox’" in changed.params.instruction
    assert changed.params.template == "{text}" and changed.answers == classifier.answers
    assert changed.fingerprint != classifier.fingerprint
