"""Example texts: the one that is shown first, and what is said beside its words."""

from evaluations import metrics, run, shown, task, text

from explearn.report.examples import example_text, first_text


def test_the_first_text_is_the_first_that_is_marked_right_and_short():
    methods = ("marker", "lime")
    texts = [
        text("a b", [0, 0], methods, number=1), text("a b", [1, 0], methods, "bad", number=2),
        text("w " * 99, [1] * 99, methods, number=3), text("c d", [0, 1], methods, number=4),
        text("e f", [0, 1], methods, number=5),
    ]  # fmt: skip
    of = run(task(figures=dict.fromkeys(methods, metrics()), **shown(*texts)))
    assert first_text(of, methods).words == ("c", "d")
    assert first_text(of, ()) is None and first_text(run(task()), methods) is None


def test_each_method_has_the_words_that_it_chooses_and_its_hits():
    of = task(figures={"rollout": metrics()}, **shown(text(methods=("rollout",))))
    block = example_text(of, of.examples[0], "a text", ["rollout"])
    marked, rollout = block.rows
    # The two highest scores, of which one is marked.
    assert list(rollout.chosen) == [False, False, True, True] and rollout.note == "1 of 2 are marked; share"
    assert marked.chosen == [False, False, True, False] and block.right
