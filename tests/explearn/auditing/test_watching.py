"""A watch on functions whose reasons are known: what changed is named with its cause, and nothing else."""

import pytest
from watch_cases import classifier, day

import explearn
from explearn.auditing.changes import RELATION, TEXTS, Figure, judge
from explearn.auditing.tallies import COLUMNS, Lexicon, Tally
from explearn.core.errors import ParamsError
from explearn.core.word_tables import to_arrow

REFERENCE = day(0, 600, alpha=0.4, beta=0.1)


def changed(watch, about="reasons"):
    return {(change.element, change.target): change for change in watch.changed(about)}


def test_texts_of_the_same_kind_change_nothing(tmp_path):
    watch = explearn.watch(REFERENCE, day(1, alpha=0.4, beta=0.1), classifier("alpha"))
    assert not any(change.changed for change in watch.changes) and watch.largest == 0
    assert "has not changed" in watch.sentences()[0]
    saved = watch.save(tmp_path / "watch.html")
    assert saved.page.exists() and (tmp_path / "watch.changes.json").exists()
    assert explearn.verify(saved.page, classifier("alpha")).differences == []


def test_a_reason_that_more_texts_have_is_due_to_other_texts():
    watch = explearn.watch(REFERENCE, day(2, alpha=0.4, beta=0.6), classifier("alpha", "beta"))
    change = changed(watch)["‘beta’", "yes"]
    assert change.cause == TEXTS and change.through_texts > 0.5 * change.difference > 0
    assert change.low < change.difference < change.high
    assert ("‘beta’", "") in changed(watch, "inputs")
    assert ("", "yes") in changed(watch, "answers")
    # Taken out of the texts that have it, the answer falls; both days' texts say so.
    assert change.effect_now > 0.3 and change.effect_reference > 0.3


def test_a_word_that_counts_for_nothing_changes_the_texts_alone():
    watch = explearn.watch(REFERENCE, day(3, alpha=0.4, beta=0.1, gamma=0.5), classifier("alpha"))
    assert ("‘gamma’", "") in changed(watch, "inputs")
    assert not changed(watch) and not changed(watch, "answers")


def test_reasons_that_go_with_other_answers_are_neither_texts_nor_classifier():
    """‘alpha’ counts at the start only, where it no longer stands; as many texts have it."""

    def predict_proba(texts):
        rows = []
        for words in map(str.split, texts):
            rows.append([0.1, 0.9] if words[:1] == ["alpha"] or "beta" in words else [0.8, 0.2])
        return rows

    def begin(texts, place):
        return [" ".join(sorted(text.split(), key=lambda word: (word == "alpha") * place)) for text in texts]

    function = explearn.FunctionPredictor(predict_proba, ["no", "yes"])
    watch = explearn.watch(begin(REFERENCE, -1), begin(day(4, alpha=0.4, beta=0.1), 1), function)
    assert not changed(watch, "inputs")
    change = changed(watch)["‘alpha’", "yes"]
    assert change.difference < 0 and change.cause == RELATION
    assert "its reasons go with other answers" in watch.sentences()[0]


def test_groups_are_watched_apart():
    rows = [{"text": text, "source": "web"} for text in REFERENCE]
    rows += [{"text": text, "source": "mail"} for text in day(7, 600, alpha=0.4, beta=0.1)]
    now = [{"text": text, "source": "web"} for text in day(8, 600, alpha=0.4, beta=0.1)]
    now += [{"text": text, "source": "mail"} for text in day(9, 600, alpha=0.4, beta=0.6)]
    watch = explearn.watch(rows, now, classifier("alpha", "beta"), options=explearn.WatchOptions(group="source"))
    groups = {change.group for change in watch.changed("reasons") if change.element == "‘beta’"}
    assert groups == {"", "mail"}


def test_what_matters_is_a_threshold():
    now = day(10, alpha=0.4, beta=0.3)
    function = classifier("alpha", "beta")
    assert changed(explearn.watch(REFERENCE, now, function))
    assert not changed(explearn.watch(REFERENCE, now, function, options=explearn.WatchOptions(least=0.5)))
    with pytest.raises(ParamsError, match="least: got 2"):
        explearn.watch(REFERENCE, now, function, options=explearn.WatchOptions(least=2))


def test_texts_need_a_classifier():
    with pytest.raises(ParamsError, match="got texts and no classifier"):
        explearn.watch(REFERENCE, REFERENCE)


def table_of(texts, function):
    explained = explearn.get_explainer("occlusion").explain(function, texts)
    return to_arrow(explained).select(COLUMNS.names)


def test_a_tally_counts_what_the_scores_say():
    """By hand: ‘alpha’ alone changes the answer, so it has all of the scores."""
    tally = Tally(Lexicon())
    tally.add(table_of(["river, alpha stone", "river 12 stone", "alpha river stone"], classifier("alpha")))
    assert tally.texts == {("yes", ""): 2, ("no", ""): 1}
    numbers = tally.lexicon.numbers
    assert tally.of(("yes", ""))[numbers["word", "‘alpha’"]].tolist() == [0] * 16 + [2]
    assert tally.of(("yes", ""))[numbers["word", "‘river’"]].tolist() == [2] + [0] * 16
    assert tally.of(("no", ""))[numbers["class of words", "numbers"]].sum() == 1
    assert tally.of(("yes", ""))[numbers["punctuation", "the mark ‘,’"]].sum() == 1
    assert sorted(text.example.text for text in tally.kept.values())[0] == "alpha river stone"


def test_a_change_is_dated_by_the_day_on_which_it_began():
    lexicon = Lexicon()
    reference = Tally(lexicon)
    reference.add(table_of(day(0, 600, alpha=0.4, beta=0.3), classifier("alpha")))
    days = []
    for seed in range(11, 17):
        tally = Tally(lexicon)
        tally.add(table_of(day(seed, 150, alpha=0.4, beta=0.3), classifier("alpha", *["beta"] * (seed > 13))))
        days.append(tally)
    for last in range(1, 7):
        judged = judge([reference, *days[:last]], 0.01, 365)
        since = dict(zip(judged.figures, judged.days, strict=True))
        changed = dict(zip(judged.figures, judged.changed, strict=True))
        beta = Figure("reasons", "‘beta’", "word", "yes", "")
        assert changed[beta] == (last > 3)
    assert since[beta] == 3
