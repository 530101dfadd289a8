"""Reader: what it asks the classifier, its network, its certificate, its repair, and whom it explains."""

import numpy as np
import pytest
import tiny
import torch
from listed import listed

import explearn
from explearn import Attribution, DataError, ModelError, ParamsError, UnsupportedError
from explearn.core.attribution_fields import Certificate, certify
from explearn.methods.perturbation.random_words import random_answers, word_sums
from explearn.methods.reader.certificate import Certifier
from explearn.methods.reader.explainer import Reader
from explearn.methods.reader.repair import passes_of, repaired

WORDS = ("fox", "dog", "sea", "castle", "tide", "morning", "lazy", "slow", "warm", "box")
QUICK = {"samples": 8, "width": 16, "epochs": 4}


def texts(count, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 6)) for _ in range(count)]


def task(of, count=40, held_out=40, **options):
    def labelled(number):
        return [(text, of.labels[0]) for text in texts(number, number)]

    return listed(of, labelled(count), labelled(held_out), **options)


@pytest.fixture(scope="module")
def trained():
    return Reader(**QUICK).learn(task(tiny.classifier()))


class TestCertificate:
    def test_the_bound_covers_nine_in_ten_and_follows_the_text(self):
        """Errors that grow with the first number: so does the bound, and of new texts nine in ten are within it."""
        generator = torch.Generator().manual_seed(0)
        features = torch.randn(2000, 6, generator=generator)
        errors = (features[:, 0] * 0.5 - 2 + 0.7 * torch.randn(2000, generator=generator)).exp().double().numpy()
        certifier = Certifier(4)
        certifier.fit_texts(features[:1000], errors[:1000])
        bound, familiar = certifier(features[1000:]).unbind(-1)
        assert np.mean(errors[1000:] <= bound.numpy()) == pytest.approx(0.9, abs=0.03)
        assert np.corrcoef(bound.numpy(), features[1000:, 0])[0, 1] > 0.6
        assert familiar.mean() == pytest.approx(0.99, abs=0.02)

    def test_far_from_the_training_texts_nothing_is_relied_on(self):
        units = np.random.default_rng(0).normal(size=(300, 8))
        certifier = Certifier(8)
        certifier.fit_distance(units)
        near = certifier.distance(torch.tensor(units[:1]).float())
        far = certifier.distance(torch.full((1, 8), 9.0))
        assert near < 30 < far
        unfamiliar = Certificate(words=("fox",), effect=0.9, bound=0.01, familiar=False)
        assert unfamiliar.verdict == "check" and "unlike" in str(unfamiliar)

    @pytest.mark.parametrize(("effect", "verdict"), [(0.5, "reliable"), (0.245, "check"), (-0.5, "check")])
    def test_the_bound_decides_relative_to_the_scores(self, effect, verdict):
        assert Certificate(words=(), effect=effect, bound=0.24, familiar=True).verdict == verdict

    def test_it_says_what_leaving_out_the_three_strongest_words_should_do(self):
        words = ("the", "goalkeeper", "saved", "penalties", "final")
        certificate = certify((0.24, 1.0), words, np.array([0, 0.1, np.nan, 0.08, 0.06]))
        assert str(certificate) == (
            "check: removing “goalkeeper”, “penalties”, “final” should lower the probability by 0.00 to 0.48 (90 % of "
            "texts)"
        )


class TestRepair:
    def test_with_every_set_of_words_it_gives_shapley_values_wherever_it_starts(self):
        of = tiny.classifier()
        text = "slow fox castle sea"
        expected = explearn.explain(of, text, "kernel_shap", 0, removal="delete")
        (one,) = random_answers(of, of.encode([text]), [40_000], 0)
        for start in (np.zeros(len(of.encode([text])[0])), np.linspace(-1, 1, len(of.encode([text])[0]))):
            actual = word_sums(repaired(start, one, 0), one.text)
            # What is left is the penalty's share, and that of the draw.
            np.testing.assert_allclose(actual, expected.scores, atol=2e-3 + 2e-2 * np.abs(expected.scores).max())

    def test_the_budget_goes_where_the_bound_is_wide(self):
        def passes(bound, familiar=True, budget=32):
            return passes_of([bound, float(familiar)], 0.2, budget)

        assert [passes(bound) for bound in (0.01, 0.2, 0.3, 9.0)] == [16, 32, 48, 64]
        assert passes(0.01, familiar=False) == 64 and passes(0.01, budget=1) == 2 and passes_of(None, 0.0, 32) == 32


def explained(method, of, given=tiny.TEXTS, *targets):
    return method.explain(of, given, *targets)


class TestExplaining:
    def test_it_comes_back_with_its_certificate(self, trained, tmp_path):
        of = tiny.classifier()
        trained.save_pretrained(tmp_path / "reader")
        again = explearn.load(tmp_path / "reader")
        for one, other in zip(explained(trained, of), explained(again, of), strict=True):
            assert one.certificate == other.certificate and one.certificate is not None
            assert str(one.certificate) in str(one) and one.to_html().count(one.certificate.verdict)
            assert Attribution.from_dict(one.to_dict()).certificate == one.certificate

    def test_neither_padding_nor_the_batch_changes_a_score_and_every_class_has_its_own(self, trained):
        of = tiny.classifier()
        together = explained(trained, of)
        for text, one in zip(tiny.TEXTS, together, strict=True):
            np.testing.assert_allclose(explained(trained, of, [text])[0].scores, one.scores, atol=1e-5)
        no, yes = explained(trained, of, [tiny.TEXTS[0]], [["no", "yes"]])
        assert (no.scores != yes.scores).all() and no.signed and no.aggregation == "sum"

    def test_a_budget_moves_scores_towards_the_classifier_s_own_answers(self, trained, tmp_path):
        of = tiny.classifier()
        given = texts(6, 9)
        trained.save_pretrained(tmp_path / "reader")
        mended = explearn.load(tmp_path / "reader", budget=400)
        with pytest.raises(ParamsError, match="options: got samples; the trained explainer"):
            explearn.load(tmp_path / "reader", budget=400, samples=3)
        exact = explearn.get_explainer("kernel_shap", removal="delete").explain(of, given)
        for before, after, true in zip(explained(trained, of, given), explained(mended, of, given), exact, strict=True):
            assert np.abs(after.scores - true.scores).sum() < np.abs(before.scores - true.scores).sum()
            assert before.certificate is not None and after.certificate is None

    @pytest.mark.parametrize("text", ["fox", "\u200b"])
    def test_texts_of_a_word_and_of_none_that_is_read(self, trained, tmp_path, text):
        trained.save_pretrained(tmp_path / "reader")
        for budget in (0, 8):
            method = explearn.load(tmp_path / "reader", budget=budget)
            (one,) = explained(method, tiny.classifier(), [text])
            assert np.isfinite(one.filled()).all()

    def test_it_certifies_words_only(self, trained):
        (one,) = trained.explain(tiny.classifier(), ["the slow fox. a warm sea."], unit="sentence")
        assert one.certificate is None

    def test_few_validation_texts_give_no_certificate(self):
        of = tiny.classifier("roberta")
        attributions = explained(Reader(**QUICK).learn(task(of, 12, 4)), of, ["the quick fox", ("a fox", "a dog")])
        assert all(np.ptp(one.scores) > 0 and one.certificate is None for one in attributions)

    def test_another_method_s_scores_are_learned(self):
        of = tiny.classifier()
        of_task = task(of, 150, 0)
        student = Reader(teacher="occlusion", width=64, epochs=40, learning_rate=3e-3).learn(of_task)
        lessons = of_task.lessons("occlusion").by_split["train"][:30]
        by_id = {example.id: example for example in of_task.examples("train")}
        attributions = explained(
            student, of, [by_id[one.example_id] for one in lessons], [one.target for one in lessons]
        )
        rhos = [np.corrcoef(a.scores, b.weights)[0, 1] for a, b in zip(attributions, lessons, strict=True)]
        assert np.mean(rhos) > 0.7 and attributions[0].certificate is None

    def test_amortised_shap_is_reader_with_kernel_shap_for_a_teacher(self):
        method = explearn.get_explainer("amortized_shap")
        assert isinstance(method, Reader) and method.options == Reader(teacher="kernel_shap").options


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """One that has learned that words 0 to 3 of WORDS are marked, too."""
    of = tiny.classifier()
    train = texts(60, 60)
    pairs = list(zip(train, of.predict(train), strict=True))
    gold = [np.isin(text.split(), WORDS[:4]) for text in train]
    of_task = listed(of, pairs, [(text, of.labels[0]) for text in texts(40, 40)], gold=gold)
    folder = tmp_path_factory.mktemp("reader") / "both"
    options = {**QUICK, "epochs": 40, "learning_rate": 1e-2}
    Reader(**options, marked="in_domain").learn(of_task).save_pretrained(folder)
    return folder


class TestMarks:
    def test_aim_chooses_between_the_classifier_and_the_marks(self, both):
        of = tiny.classifier()
        text = "fox unbelievably castle lazy box warm"
        uses, marks, mixed = (explained(explearn.load(both, aim=aim), of, [text])[0] for aim in (1, 0, 0.5))
        assert uses.certificate is not None and marks.certificate is None and mixed.certificate is None
        assert marks.scores.min() >= 0 and marks.scores.max() <= 1
        assert marks.scores[[0, 2]].min() > marks.scores[[3, 4, 5]].max()
        parts = [one.token_scores / np.abs(one.token_scores).sum() for one in (uses, marks)]
        inside = mixed.token_scores != 0
        np.testing.assert_allclose(mixed.token_scores[inside], (0.5 * (parts[0] + parts[1]))[inside], atol=1e-5)

    def test_marked_words_have_to_be_learned(self, trained, tmp_path):
        trained.save_pretrained(tmp_path / "reader")
        with pytest.raises(ParamsError, match="aim: got 0 without `marked`"):
            explearn.load(tmp_path / "reader", aim=0)
        with pytest.raises(ParamsError, match=r"budget: got 5 with teacher 'answers' and aim 0\.5"):
            Reader(marked="universal", aim=0.5, budget=5)


def counting_foxes(version="1"):
    def answer(rows):
        some = np.array([row.split().count("fox") / 6 for row in rows])
        return np.stack([1 - some, some], 1)

    return explearn.FunctionPredictor(answer, ["none", "some"], name="foxes", version=version)


@pytest.fixture(scope="module")
def of_function():
    return Reader(samples=8, width=16, epochs=25, learning_rate=0.01).learn(task(counting_foxes(), 100))


class TestAFunction:
    def test_the_words_it_counts_have_the_scores_and_all_texts_a_certificate(self, of_function):
        rows = texts(20, seed=9)
        for row in of_function.explain(counting_foxes(), rows, ["some"] * len(rows)):
            foxes = np.array([word == "fox" for word in row.words])
            assert (row.scores[foxes] > 0.08).all() and (np.abs(row.scores[~foxes]) < 0.08).all()
            assert row.certificate is not None

    def test_a_stored_one_explains_the_function_of_this_version_alone(self, of_function, tmp_path):
        of_function.save_pretrained(tmp_path / "reader")
        read = Reader.from_pretrained(tmp_path / "reader")
        assert not read.needs_model
        assert explained(read, counting_foxes())
        with pytest.raises(UnsupportedError, match="trained for another classifier"):
            explained(read, counting_foxes("2"))

    def test_what_needs_a_model_refuses(self, trained):
        with pytest.raises(UnsupportedError, match="has no model to look into"):
            explained(trained, counting_foxes())
        with pytest.raises(UnsupportedError, match="foxes has no model to look into"):
            Reader(**QUICK, marked="universal").learn(task(counting_foxes()))


class TestMistakes:
    def test_what_cannot_be_learned(self):
        of = tiny.classifier()
        with pytest.raises(DataError, match="has 2 training texts of two words or more; expected 5 at least"):
            Reader(**QUICK).learn(task(of, 2, 0))
        for weight, error, message in (
            (torch.nan, ModelError, "finite"),
            (0.0, DataError, "is the same whichever words are left out"),
        ):
            broken = tiny.make_classifier()
            broken.model.classifier.weight.data.fill_(weight)
            with pytest.raises(error, match=message):
                Reader(**QUICK).learn(task(broken))
        with pytest.raises(ParamsError, match="budget: got 5 with teacher 'lime'"):
            Reader(teacher="lime", budget=5)

    @pytest.mark.parametrize("teacher", ["answers", "attcat"])
    def test_texts_of_one_class_alone_are_said_to_be_so(self, teacher, caplog):
        of = tiny.classifier("bert", 3)
        alike = tiny.make_classifier()
        alike.model.classifier.bias.data += torch.tensor([9.0, 0.0])
        for classifier, said in ((alike, True), (of, False)):
            caplog.clear()
            Reader(**QUICK, teacher=teacher).learn(task(classifier))
            warned = (
                "reader: all 40 training texts have the class 'no', so scores of texts of other classes may mislead"
            )
            assert (warned in caplog.text) == said, caplog.text
