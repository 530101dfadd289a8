"""The report's first page says what follows from the numbers, and no more."""

import numpy as np
import pytest
from task_reports import comparison, metrics, run, shown, task

from explearn.metrics.registry import CATALOGUE
from explearn.report.columns import leaderboard
from explearn.report.examples import choose_examples, first_text
from explearn.report.verdict import (
    MARKS,
    MODEL,
    counted_tasks,
    counting_sentence,
    find_leader,
    find_verdict,
    leader_table,
    means,
    near_chance,
)

NOISE = np.random.default_rng(13).normal(0, 0.01, 40)
WEAK = {"test": {"accuracy": 0.52, "majority_rate": 0.5}}
SPEEDS = {"lime": 0.02, "random": 0.9, "cam": 0.8, "marker": 0.95, "marker_in_domain": 0.95, "consensus": 0.4}


def judged(f1, aopc=None, name="films", **changes):
    """A task with these figures, on 40 texts around each, and a time for each method."""
    aopc = aopc or {method: 0.1 for method in f1}
    methods = {m: metrics(f1[m], aopc_comprehensiveness=aopc[m], relative_throughput=SPEEDS.get(m, 0.5)) for m in f1}
    by_text = {CATALOGUE[MARKS].by_text: around(f1), CATALOGUE[MODEL].by_text: around(aopc)}
    return task(name, methods, by_text=by_text, comparisons={MARKS: comparison(MARKS, f1)}, **changes)


def around(figures):
    return {m: np.clip(value + np.roll(NOISE, 7 * i), -1, 1) for i, (m, value) in enumerate(figures.items())}


def facts(of, **changes):
    protocols = {"marker_in_domain": {"protocol": "in_domain"}}
    return run(*of.methods, **{"options": protocols, "trained": ["marker", "marker_in_domain"], **changes})


def verdict(of, **changes):
    return find_verdict(facts(of, **changes), [of])


class TestMeans:
    def test_methods_that_lack_a_task_are_left_out(self):
        tasks = [judged({"marker": 0.5, "rollout": 0.4}), judged({"marker": 0.3}, name="meals")]
        assert means(run("marker", "rollout"), "f1", tasks) == {"marker": pytest.approx(0.4)}
        assert means(run("marker", "rollout"), "time", tasks) == {"marker": pytest.approx(1 / 0.95)}
        # A task where nobody has the figure does not count.
        assert means(run("marker"), "f1", [*tasks, task("empty", {"marker": metrics(None)})])["marker"] == 0.4

    def test_tasks_whose_classifier_learned_nothing_do_not_count(self):
        weak = task("films", classifier=WEAK)
        good = task("meals")
        assert counted_tasks(run(), [weak, good]) == [good] and counted_tasks(run(), [weak]) == [weak]
        assert "films (accuracy 0.520, most frequent class 0.500)" in counting_sentence(run(), [weak, good])
        assert counting_sentence(run(), [good]) == ""
        assert counting_sentence(run(), [good, task("plays")]) == "Figures are means over meals, plays."

    @pytest.mark.parametrize(
        ("accuracy", "majority", "weak"),
        [(0.61, 0.5, False), (0.59, 0.5, True), (0.98, 0.95, False), (0.97, 0.95, True), (0.7, 1.0, False)],
    )
    def test_a_classifier_counts_that_avoids_half_of_the_errors(self, accuracy, majority, weak):
        of = task("films", classifier={"test": {"accuracy": accuracy, "majority_rate": majority}})
        assert (near_chance(run(), of) is not None) is weak


class TestLeader:
    def test_the_texts_of_all_tasks_together_say_who_is_not_significantly_worse(self):
        # Against rollout, cam wins on one task what it loses on the other; raw_attention loses on both.
        films = judged({"random": 0.1, "raw_attention": 0.4, "cam": 0.6, "rollout": 0.5})
        meals = judged({"random": 0.1, "raw_attention": 0.4, "cam": 0.39, "rollout": 0.5}, name="meals")
        leader = find_leader(facts(films), [films, meals], MARKS)
        assert (leader.method, leader.values["rollout"], leader.chance) == ("rollout", 0.5, "0.100")
        assert (leader.tied, leader.undecided) == (("cam",), ()) and not leader.alone
        assert leader.least({"cam": 1.2, "rollout": 2.0}) == "cam"

    def test_random_scores_are_no_alternative_to_it(self):
        of = judged({"random": 0.5, "rollout": 0.5001})
        leader = find_leader(facts(of), [of], MARKS)
        assert (leader.method, leader.tied, leader.chance_too) == ("rollout", (), True)
        row = leader_table(facts(of), [of]).rows[0]
        assert row[1] == "none (best figure: rollout)"

    def test_what_explains_its_own_classifier_is_not_ahead_in_what_asks_the_classifier(self):
        of = task(
            methods={"ivra": metrics(0.9, aopc_comprehensiveness=0.9), "cam": metrics(0.5, aopc_comprehensiveness=0.3)}
        )
        assert find_leader(run("ivra", "cam"), [of], MARKS).method == "ivra"
        assert find_leader(run("ivra", "cam"), [of], MODEL).method == "cam"
        board = leaderboard(run("ivra", "cam"), "", of.methods, [CATALOGUE[MODEL]])
        assert [(row[1].text, row[1].mark) for row in board.rows] == [("0.900", ""), ("0.300", "best")]


class TestVerdict:
    def test_it_names_a_method_for_each_question_with_figures_and_random_scores(self):
        of = judged({"marker": 0.5, "lime": 0.3, "random": 0.1}, {"marker": 0.1, "lime": 0.4, "random": 0.02})
        said = verdict(of).sentence.replace("\x02", "**").replace("\x03", "**")
        assert said == (
            "For the marked words of films, use **marker**: F1 0.500; random words 0.100. For the words that the "
            "classifier depends on, use **lime**: without them its probability falls by 0.400; random words 0.020. "
            "Methods joined by “or” are not told apart (p of 0.1 or more, Wilcoxon's test over the texts with Holm's "
            "correction); undecided: p from 0.025 to 0.1."
        )

    def test_with_what_learned_from_the_task_s_marks_it_names_the_best_that_did_not(self):
        f1 = {"marker_in_domain": 0.6, "consensus": 0.5004, "marker": 0.5, "cam": 0.4998, "random": 0.1}
        of = judged(f1)
        said = verdict(of).sentence.replace("\x02", "").replace("\x03", "")
        assert "use marker_in_domain: F1 0.600; marker_in_domain learned from marks of the task; without " in said
        assert "training on such words consensus, marker or cam: 0.500, 0.500, 0.500; random words 0.100." in said
        assert list(verdict(of).methods)[:2] == ["marker_in_domain", "consensus"]

    def test_the_cheapest_that_is_not_told_apart_stands_beside_it(self):
        of = judged({"lime": 0.501, "cam": 0.5, "random": 0.1}, {"lime": 0.4, "cam": 0.1, "random": 0.02})
        for method, forward, backward in (("lime", 128.0, 0.0), ("cam", 1.0, 1.0), ("random", 1.0, 0.0)):
            of.methods[method].update(forward_passes=forward, backward_passes=backward)
        said = verdict(of).sentence.replace("\x02", "").replace("\x03", "")
        assert "use lime or cam: F1 0.501, 0.500; random words 0.100; passes through the classifier: cam 2" in said
        assert "lime 128. For the words that the classifier depends on, use lime: without" in said
        assert dict(verdict(of).best) == {MARKS: ["lime", "cam"], MODEL: ["lime"]}

    @pytest.mark.parametrize(
        ("texts", "said"),
        [(4, "use lime or cam: F1"), (6, "use lime: F1 0.500 (undecided: cam)"), (7, "use lime: F1 0.500.")],
    )
    def test_a_borderline_p_value_decides_nothing(self, texts, said):
        """If lime is ahead on all of n texts, p is 2^(1 - n): .125, .031 and .016."""
        gains = np.arange(1, texts + 1) / 100
        by_text = {CATALOGUE[MARKS].by_text: {"lime": 0.4 + gains, "cam": np.full(texts, 0.4)}}
        of = task("films", {"lime": metrics(0.5), "cam": metrics(0.4)}, by_text=by_text)
        assert said in verdict(of).sentence.replace("\x02", "").replace("\x03", "")
        assert ("cam" in verdict(of).best[MARKS]) is (texts < 7)

    def test_who_marked_the_words_is_named_if_one_kind_of_annotator_did(self):
        f1 = {"lime": 0.5, "random": 0.1}
        for kinds, words in (
            ({"llm": 3}, "For the words that a language model marked, use"),
            ({"human": 3}, "For the words that people marked, use"),
            ({"human": 3, "llm": 1}, "For the marked words of films, use"),
            ({"unknown": 3}, "For the words that three nurses marked, use"),
        ):
            agreement = {"kinds": kinds, "marked_by": {kind: ["three nurses"] for kind in kinds}}
            assert verdict(judged(f1, agreement=agreement)).sentence.startswith(words)
        unknown = {"kinds": {"unknown": 3}, "marked_by": {"unknown": ["table"]}}
        assert verdict(judged(f1, agreement=unknown)).sentence.startswith("For the marked words of films, use")

    def test_without_random_scores_it_says_that_chance_is_not_known(self):
        unknown = "Without random among the methods, nothing tells how far these figures are from chance."
        assert unknown in verdict(judged({"lime": 0.5})).sentence
        assert unknown not in verdict(judged({"lime": 0.5, "random": 0.1})).sentence

    def test_what_random_scores_do_as_well_is_not_recommended(self):
        of = judged({"marker": 0.1, "random": 0.1001}, {"marker": 0.4, "random": 0.02})
        assert verdict(of).sentence.startswith(
            "For the marked words of films, \x02no method is clearly better than random scores"
        )
        assert list(verdict(of).methods) == ["marker"]


class TestLeaderboard:
    def test_the_best_is_marked_in_its_direction_and_ties_are_all_marked(self):
        rows = {
            "marker": metrics(0.4001, 0.3, 0.5, sufficiency=-0.2),
            "rollout": metrics(0.3999, sufficiency=0.3),
            "random": metrics(0.1, sufficiency=-0.0001),
        }
        board = leaderboard(run(), "", rows, [CATALOGUE["f1"], CATALOGUE["sufficiency"]])
        cells = [[(cell.text, cell.mark) for cell in row[1:]] for row in board.rows]
        assert cells == [
            [("0.400", "best"), ("-0.200", "best")],
            [("0.100", ""), ("0.000", "")],
            [("0.400", "best"), ("0.300", "")],
        ]
        assert board.rows[0][1].note == "0.30 to 0.50" and list(board.methods) == ["marker", "random", "rollout"]

    def test_counted_passes_that_are_not_all_the_work_say_so_and_are_never_best(self):
        rows = {"full_lrp": metrics(forward_passes=1.0), "faml": metrics(forward_passes=2.0)}
        board = leaderboard(run("full_lrp", "faml"), "", rows, [CATALOGUE["forward_passes"]])
        assert [(row[0], row[1].text, row[1].mark) for row in board.rows] == [
            ("faml ‡", "2.0+", ""), ("full_lrp", "1.0+", ""),
        ]  # fmt: skip

    def test_costs_within_the_clock_s_noise_are_all_best_and_nothing_beats_classifying_alone(self):
        speeds = {"marker": 1.08, "raw_attention": 0.93, "rollout": 0.88, "lime": 0.031}
        rows = {method: metrics(relative_throughput=speed) for method, speed in speeds.items()}
        board = leaderboard(run(*speeds), "", rows, [CATALOGUE["relative_throughput"]])
        assert [(row[1].text, row[1].mark) for row in board.rows] == [
            ("1.00×", "best"), ("0.93×", "best"), ("0.88×", ""), ("0.03×", ""),
        ]  # fmt: skip
        assert board.columns[1].machine


class TestExamples:
    def test_those_with_marks_come_first_spread_over_labels(self):
        pool = [
            shown("w", [0], number=f"{label}-{i}", label=label).example
            for label in ("bad", "good", "odd")
            for i in range(10)
        ]
        gold = {e.id: [e.label != "odd"] for e in pool}
        chosen = choose_examples(pool, gold, 4, seed=1)
        assert sorted(e.label for e in chosen) == ["bad", "bad", "good", "good"]
        assert chosen == choose_examples(pool[::-1], gold, 4, seed=1) != choose_examples(pool, gold, 4, seed=2)
        # Texts nobody marked fill up what is left.
        assert [e.label for e in choose_examples(pool, gold, 21, seed=1)].count("odd") == 1

    def test_the_first_text_is_the_first_that_is_marked_right_and_short(self):
        methods = ("marker", "lime")
        texts = [
            shown("a b", [0, 0], methods, number=1), shown("a b", [1, 0], methods, "bad", number=2),
            shown("w " * 99, [1] * 99, methods, number=3), shown("c d", [0, 1], methods, number=4),
            shown("e f", [0, 1], methods, number=5), shown("g h", [0, 1], ("lime",), number=6),
        ]  # fmt: skip
        block = first_text(run(), [task(texts=texts)], dict.fromkeys(methods, "why"))
        assert block.words == ("c", "d") and block.rows[1].note == "why"
