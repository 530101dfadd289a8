"""What a page says follows from the figures: which methods, which numbers, and in which order."""

import numpy as np
import pytest
from evaluations import check, metrics, paired, run, task

from explearn import MethodInfo
from explearn.metrics.reasons import METHOD as REASONS
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.sanity import ScoreSimilarity
from explearn.metrics.significance import paired_tests
from explearn.report import conclusions
from explearn.report.conclusions import RULES, SENTENCES, about, answer, answers, best_of, caveats, lead
from explearn.report.run import MARKS, MODEL
from explearn.show.blocks import plain

NOISE = np.random.default_rng(13).normal(0, 0.01, 40)
PROTOCOLS = {"marker_in_domain": {"protocol": "in_domain"}}


def judged(f1, aopc=None, name="films", **changes):
    """A task with these figures, on 40 texts around each."""
    aopc = aopc or dict.fromkeys(f1, 0.1)
    figures = {method: metrics(f1[method], aopc_comprehensiveness=aopc[method], auroc=None) for method in f1}
    comparisons = {}
    by_text = {}
    for metric, values in ((MARKS, f1), (MODEL, aopc)):
        texts = {}
        for number, (method, value) in enumerate(values.items()):
            texts[method] = np.clip(value + np.roll(NOISE, 7 * number), -1, 1)
        by_text[CATALOGUE[metric].by_text] = texts
        comparisons[metric] = paired_tests(metric, values, texts)
    changes = {"options": PROTOCOLS, **changes}
    return task(name, figures, by_text=by_text, comparisons=comparisons, **changes)


def found(rule, *tasks, **changes):
    """What a rule finds: the methods of each conclusion, and what its sentence lists."""
    return [(list(conclusion.methods), conclusion.values) for conclusion in rule(run(*tasks, **changes))]


def only(rule, *tasks, **changes):
    ((methods, values),) = found(rule, *tasks, **changes)
    return methods, values["listed"]


class TestAnswer:
    def test_the_best_alone_is_clear(self):
        of = judged({"marker": 0.5, "lime": 0.3, "random": 0.1})
        first = answer(run(of), MARKS)
        assert (first.kind, first.methods, first.values["named"]) == ("clear", ("marker",), ["marker"])
        assert (first.values["figure"], first.values["chance"]) == ("0.500", "0.100")

    @pytest.mark.parametrize("f1", [{"lime": 0.5}, {"lime": 0.5, "random": 0.1}])
    def test_where_nothing_but_random_scores_is_beside_it_it_is_not_called_the_best(self, f1):
        assert answer(run(judged(f1)), MARKS).kind == "alone"

    def test_of_those_level_with_it_the_cheapest_is_named_too(self):
        of = judged({"lime": 0.501, "shap": 0.5005, "cam": 0.5, "random": 0.1})
        for method, forward in (("lime", 128.0), ("shap", 64.0), ("cam", 1.0)):
            of.figures[method] |= {"forward_passes": forward, "backward_passes": 1.0}
        first = answer(run(of), MARKS)
        assert (first.kind, first.methods) == ("level", ("lime", "cam"))
        assert first.values["named"] == ["lime", "shap", "cam"]
        (cheaper,) = conclusions.cheaper(run(of), first)
        assert (cheaper.values["few"], cheaper.values["many"]) == ("2 passes", "129")

    def test_what_random_scores_do_as_well_is_not_recommended(self):
        of = judged({"rollout": 0.5001, "cam": 0.5, "random": 0.5})
        first = answer(run(of), MARKS)
        assert (first.kind, first.methods, first.values["named"]) == ("chance", (), [])

    def test_what_explains_its_own_classifier_is_not_ahead_in_what_asks_the_classifier(self):
        figures = {"ivra": metrics(0.9, **{MODEL: 0.9}), "cam": metrics(0.5, **{MODEL: 0.3})}
        of = run(task(figures=figures))
        assert answer(of, MARKS).values["best"] == "ivra" and answer(of, MODEL).values["best"] == "cam"

    @pytest.mark.parametrize(("texts", "kind"), [(4, "level"), (6, "open"), (7, "clear")])
    def test_a_borderline_p_value_decides_nothing(self, texts, kind):
        """If lime is ahead on all of n texts, p is 2^(1 - n): .125, .031 and .016."""
        gains = np.arange(1, texts + 1) / 100
        values = {"lime": 0.4 + gains, "cam": np.full(texts, 0.4)}
        comparisons = {MARKS: paired_tests(MARKS, {"lime": 0.5, "cam": 0.4}, values)}
        of = task(figures={"lime": metrics(0.5), "cam": metrics(0.4)}, comparisons=comparisons)
        first = answer(run(of), MARKS)
        assert first.kind == kind and ("cam" in first.values["named"]) is (texts < 7)

    def test_where_the_best_learned_from_the_marks_the_best_that_did_not_follows(self):
        of = judged({"marker_in_domain": 0.6, "consensus": 0.5004, "marker": 0.5, "random": 0.1})
        first, second, *_ = answers(run(of))
        assert (first.values["best"], second.values["best"]) == ("marker_in_domain", "consensus")
        assert second.values["without_marks"] and second.values["level"] == ["marker"]
        assert "learned from such marks" in first.values["use"] and "learned" not in second.values["use"]


class TestLead:
    def test_it_answers_two_questions_and_says_what_the_cheaper_of_two_costs(self):
        of = judged({"marker": 0.5, "lime": 0.3, "random": 0.1}, {"marker": 0.1, "lime": 0.4, "random": 0.02})
        assert [(said.kind, said.methods) for said in lead(run(of))] == [("clear", ("marker",)), ("clear", ("lime",))]

    def test_who_marked_the_words_is_named_if_one_kind_of_annotator_did(self):
        for kinds, words in (
            ({"llm": 3}, "the words that a language model marked"),
            ({"human": 3}, "the words that people marked"),
            ({"human": 3, "llm": 1}, "the marked words of films"),
            ({"unknown": 3}, "the words that three nurses marked"),
        ):
            marks = {"kinds": kinds, "marked_by": {kind: ["three nurses"] for kind in kinds}}
            assert answer(run(judged({"lime": 0.5, "random": 0.1}, marks=marks)), MARKS).values["words"] == words
        unknown = {"kinds": {"unknown": 3}, "marked_by": {"unknown": ["table"]}}
        assert answer(run(judged({"lime": 0.5}, marks=unknown)), MARKS).values["words"] == "the marked words of films"

    def test_a_classifier_that_learned_nothing_is_no_evidence(self):
        weak = task(performance={"test": {"accuracy": 0.55, "majority_rate": 0.5}})
        assert [said.kind for said in lead(run(weak))] == ["no evidence"]
        assert [said.kind for said in lead(run(task(figures={"lime": {}})))] == ["no figures"]

    @pytest.mark.parametrize("kind", ["llm", "human"])
    @pytest.mark.parametrize("step", [0.0001, 0.02, 0.2])
    def test_it_has_three_sentences_and_fifty_words_at_most(self, kind, step):
        names = ("marker_in_domain", "faml", "consensus", "integrated_gradients", "lime", "shap", "attn_lrp")
        f1 = {name: 0.9 - step * place * 0.5 for place, name in enumerate(names)}
        aopc = {name: 0.3 + step * place * 0.5 for place, name in enumerate(names)}
        of = judged({**f1, "random": -0.9}, {**aopc, "random": -0.9}, marks={"kinds": {kind: 3}})
        for place, name in enumerate(reversed(names)):
            of.figures[name] |= {"forward_passes": 111.0 + place, "backward_passes": 0.0}
        said = lead(run(of))
        assert len(said) <= 3
        assert len(" ".join(plain(one.sentence) for one in said).split()) <= 50

    @pytest.mark.parametrize(
        ("margin", "gain", "kind"), [(0.3, 0.4, "trusted"), (0.0, 0.0, "not trusted"), (0.3, 0.1, "undecided")]
    )
    def test_a_model_s_own_reasons_are_judged(self, margin, gain, kind):
        noise = np.resize([0.02, -0.02, 0.03, -0.03], 24)
        if kind == "undecided":
            noise = noise * 20
        values = {"reason_margin": {REASONS: margin + noise / 10}, "reason_gain": {REASONS: gain + noise}}
        of = run(task(figures={REASONS: metrics(), "random": metrics()}, by_text=values))
        assert lead(of)[-1].kind == kind
        judgement, measured = conclusions.trust(of)
        assert judgement.kind == kind and measured.values["gain"] == pytest.approx(gain)


class TestCaveats:
    def test_those_on_methods_that_the_page_names_come_first_then_by_rule(self):
        of = judged(
            {"cam": 0.9, "lime": 0.5, "random": 0.1}, notes={"cam": {"optimised_for": "x"}, "lime": {"best_epoch": 0}}
        )
        kinds = [(conclusion.kind, conclusion.methods) for conclusion in caveats(run(of))]
        assert kinds[0] == ("near metric", ("cam", "lime"))
        assert kinds[-1] == ("untrained", ("lime",)), "it is the gravest, but lime is not named"

    def test_every_rule_has_its_sentences(self):
        of = task(figures={"cam": metrics(0.5, 0.4, 0.6)}, marks={}, performance={}, remarks=["5 of 6 texts."])
        for rule in RULES:
            for conclusion in rule(run(of)):
                assert conclusion.kind in SENTENCES and conclusion.sentence

    def test_untrained(self):
        films = task("films", {"ivra": metrics()}, notes={"ivra": {"best_epoch": 0}})
        meals = task("meals", {"ivra": metrics()}, notes={"ivra": {"best_epoch": 1}})
        assert only(conclusions.untrained, films, meals) == (["ivra"], "ivra (films)")
        # faML starts from pAML.
        notes = {"paml": {"best_epoch": 0}}
        methods, _ = only(conclusions.untrained, task(figures=dict.fromkeys(("paml", "faml"), metrics()), notes=notes))
        assert methods == ["paml", "faml"]

    def test_still_better(self):
        notes = {"paml": {"best_epoch": 4, "epochs": [{"epoch": 4}], "ended": "time"}}
        notes["l2e"] = {"best_epoch": 4, "epochs": [{"epoch": 7}], "ended": "patience"}
        assert only(conclusions.still_better, task(notes=notes)) == (["paml"], "paml (films)")

    def test_not_counted(self):
        weak = task("films", performance={"test": {"accuracy": 0.52, "majority_rate": 0.5}})
        assert only(conclusions.not_counted, weak, task("meals")) == ([], "films")
        assert found(conclusions.not_counted, task("meals")) == []

    def test_no_random(self):
        assert len(found(conclusions.no_random, task())) == 1
        assert found(conclusions.no_random, task(figures={"lime": metrics(), "random": metrics()})) == []

    def test_unmarked_and_unlabelled(self):
        of = task(marks={"texts": {"test": 0}}, performance={})
        assert only(conclusions.unmarked, of) == only(conclusions.unlabelled, of) == ([], "films")
        assert found(conclusions.unmarked, task()) == found(conclusions.unlabelled, task()) == []

    def test_near_metric(self):
        names = ("marker", "lime", "deep_shap", "cam", "reader", "paml", "faml")
        notes = {"paml": {"metric": "log_odds", "best_epoch": 2}, "ivra": {"best_epoch": 1, "criteria": ["comp"]}}
        of = task(figures=dict.fromkeys(names, metrics()), notes=notes, options={"reader": {"teacher": "answers"}})
        # Deep SHAP compares texts with reference texts and does not shorten them.
        assert set(only(conclusions.near_metric, of)[0]) == {"reader", "paml", "faml", "lime"}
        taught = task(figures={"reader": metrics()}, options={"reader": {"teacher": "attcat"}})
        assert found(conclusions.near_metric, taught) == []

    def test_unmoved(self):
        # What is learned stays when the classifier's weights are drawn anew, and says nothing.
        correlations = {"rollout": 0.9, "cam": 0.2, "random": 1.0, "l2e": 1.0, "paml": 0.9, "faml": 0.9}
        figures = dict.fromkeys(correlations, metrics())
        checked = {method: check(rho) for method, rho in correlations.items()}
        assert only(conclusions.unmoved, task(figures=figures, sanity=checked)) == (["rollout"], "rollout (0.90)")
        # The last part that is drawn anew decides.
        parts = {"head": ScoreSimilarity(0.95, 0.5), "embeddings": ScoreSimilarity(0.1, 0.5)}
        of = task(figures={"cam": metrics()}, sanity={"cam": check(random_model=parts)})
        assert found(conclusions.unmoved, of) == []

    def test_unchecked(self):
        figures = dict.fromkeys(("cam", "lime", "random", "paml"), metrics())
        assert only(conclusions.unchecked, task(figures=figures, sanity={"cam": check()})) == (["lime"], "lime")
        assert found(conclusions.unchecked, task(figures=figures, sanity={"cam": check(), "lime": check()})) == []
        skipped = dict.fromkeys(("cam", "lime"), check(random_model={}, skipped="no model inside"))
        assert only(conclusions.unchecked, task(figures=figures, sanity=skipped))[1] == "all methods (no model inside)"

    def test_like_chance(self):
        values = {"random": 0.5, "rollout": 0.55, "cam": 0.9, "lime": 0.8}
        better = {("random", "cam"): 0.001, ("random", "lime"): 0.01}
        figures = {name: metrics(auroc=value) for name, value in values.items()}
        of = task(figures=figures, comparisons={"auroc": paired("auroc", values, better)})
        assert only(conclusions.like_chance, of) == (["rollout"], "rollout")
        # Where none is better, the answer says so.
        nothing = task(figures=figures, comparisons={"auroc": paired("auroc", values)})
        assert found(conclusions.like_chance, nothing) == []

    def test_incomplete(self):
        figures = {"shap": metrics(completeness_error=0.09), "deep_lift": metrics(completeness_error=0.3)}
        assert only(conclusions.incomplete, task(figures=figures)) == (["deep_lift"], "deep_lift (30%)")

    def test_few_texts(self):
        figures = {"cam": metrics(0.5, 0.4, 0.6), "lime": metrics(0.5, 0.3, 0.7, plausibility_texts=5)}
        ((_, values),) = found(conclusions.few_texts, task(figures=figures))
        assert values["texts"] == "3 to 5" and values["half"] == pytest.approx(0.15)

    def test_powerless(self):
        """Of four texts the least p is 1/8, and there are three pairs."""
        tests = {MARKS: paired(MARKS, {"cam": 0.5, "lime": 0.4, "gae": 0.3})}
        assert only(conclusions.powerless, task(comparisons=tests)) == ([], "F1 top-K")

    def test_disagreement_and_one_opinion(self):
        assert only(conclusions.disagreement, task(marks={"alpha": 0.3})) == ([], "films (0.30)")
        assert found(conclusions.disagreement, task(marks={"alpha": 0.7})) == []
        assert only(conclusions.one_opinion, task(marks={"alpha": None, "kinds": {"llm": 3}})) == ([], "films")

    def test_one_training(self):
        ((_, values),) = found(conclusions.one_training, task(seed=7))
        assert values["seed"] == 7 and found(conclusions.one_training, task(), trained=[]) == []

    @pytest.mark.parametrize(("confidence", "named"), [(0.85, False), (0.4, True)])
    def test_low_confidence(self, confidence, named):
        figures = {"ivra": metrics(confidence_full=0.1), "cam": metrics(confidence_full=confidence)}
        said = found(conclusions.low_confidence, task(figures=figures))
        assert bool(said) is named and all("mean confidence 0.40" in values["listed"] for _, values in said)

    @pytest.mark.parametrize(("without", "named"), [(0.81, False), (0.79, True)])
    def test_shifted(self, without, named):
        # Of two classes: guessing is 0.5, so that a quarter of the way is at 0.8.
        figures = metrics(confidence_full=0.9, confidence_without=without, confidence_only=0.9, confidence_masked=0.9)
        said = found(conclusions.shifted, task(figures={"random": figures}))
        assert bool(said) is named and all(values["listed"] == "films (0.90 to 0.79)" for _, values in said)
        assert found(conclusions.shifted, task(figures={"cam": figures})) == []

    def test_remarks(self):
        assert only(conclusions.remarks, task(remarks=["5 of 6 texts were used."])) == ([], "5 of 6 texts were used.")

    def test_left_out(self):
        assert only(conclusions.left_out, task(left_out={"lime": "slow"})) == ([], "lime (slow)")
        assert found(conclusions.left_out, task()) == []

    def test_not_trained_here(self):
        notes = {"consensus": {"shipped": True}, "marker": {"best_epoch": 2}}
        assert only(conclusions.not_trained_here, task(notes=notes)) == (["consensus"], "consensus")

    def test_from_a_file(self):
        given = MethodInfo(name="given_theirs", family="given", cost="", target="", summary="")
        of = task(figures={"given_theirs": metrics()}, infos={"given_theirs": given})
        assert only(conclusions.from_a_file, of) == (["given_theirs"], "given_theirs")
        assert found(conclusions.from_a_file, task()) == []

    def test_unstable(self):
        assert only(conclusions.unstable, task(unit="sentence")) == ([], "sentence")
        assert found(conclusions.unstable, task(unit="token")) == []


class TestAbout:
    def test_a_method_has_its_figure_its_test_and_the_caveats_on_it(self):
        of = judged({"lime": 0.5, "cam": 0.4, "random": 0.1}, {"lime": 0.4, "cam": 0.02, "random": 0.02}, marks={})
        sentences, against = about(of, "lime")
        assert "0.400" in sentences[0] and "is significantly better" in sentences[1]
        assert any("lime" in caveat for caveat in against)
        assert "is not significantly better" in about(of, "cam")[0][1]
        assert len(about(of, "shap")[0]) == 1 and about(of, "shap")[1] == []
        assert best_of(of) == "lime" and best_of(judged({"random": 0.1})) is None
