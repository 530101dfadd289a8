"""`explearn record` and `explearn verify`: a record holds elsewhere, and an altered one is refused."""

import hashlib
import json
import shutil

import cli_cases
import pytest
import saying
import tiny
import torch
import transformers

import explearn

TEXT = "unbelievably slow delivery and no refund , whatsoever"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("classifier"), "bert", seed=2)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, model):
    """A folder with a record, and its page."""
    made = tmp_path_factory.mktemp("recorded")
    code, said = run("record", TEXT, "--classifier", model, "--out", made / "record.html")
    assert code == 0, said
    return made


@pytest.fixture
def folder(tmp_path, recorded):
    """A copy of it to change."""
    return shutil.copytree(recorded, tmp_path, dirs_exist_ok=True)


def run(*arguments):
    done = cli_cases.run(*arguments)
    return done.exit_code, done.output


def verify(folder, model, *more):
    return run("verify", folder / "record.json", "--classifier", model, *more)


def read(folder):
    return json.loads((folder / "record.json").read_text(encoding="utf-8"))


def write(folder, document):
    (folder / "record.json").write_text(json.dumps(document), encoding="utf-8")


def keys(folder, name):
    """A private and a public key, as openssl writes them."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_what_a_record_says_is_what_the_classifier_answers(model):
    record = explearn.record(model, TEXT, "occlusion", device="cpu")
    classifier = explearn.load_classifier(model, device="cpu")
    words = TEXT.split()
    assert record.classifier.name == model.name
    assert record.answer.label == classifier.predict([TEXT])[0]
    assert record.text.sha256 == [hashlib.sha256(TEXT.encode()).hexdigest()]
    first = record.elements[0]
    assert record.scores[first.position] == max(score for score in record.scores if score is not None)
    without = " ".join(words[: first.position] + words[first.position + 1 :])
    expected = classifier.predict_proba([without])[0].tolist()
    assert first.without is not None and list(first.without.probabilities.values()) == pytest.approx(expected)
    changed = {edit.position for edit in record.change.edits}
    left = [word for position, word in enumerate(words) if position not in changed]
    assert record.change.answer is not None
    assert classifier.predict([" ".join(left)]) == [record.change.answer.label] != [record.answer.label]


def test_only_words_that_count_for_the_answer_are_named():
    of = explearn.FunctionPredictor(
        lambda texts: [[0.9, 0.1] if "good" in text else [0.3, 0.7] for text in texts], ["a", "b"]
    )
    record = explearn.record(of, "a good film", "occlusion")
    assert [element.word for element in record.elements] == ["good"]
    assert record.without_elements is not None and record.without_elements.label == "b"
    said = " ".join(record.sentences())
    assert "Without “good” the probability of a is 0.300, and the answer is b." in said
    unsure = record.answer.model_copy(update={"probabilities": {"a": 0.2, "b": 0.8}})
    said = " ".join(record.model_copy(update={"answer": unsure}).sentences())
    assert "is 0.300, which is higher: here the test does not bear out the method, and the answer is b." in said
    record = explearn.record(of, "a film", "occlusion")
    assert record.elements == [] and record.without_elements is None
    assert "gives no word a score above 0" in str(record)


def test_a_record_holds_when_it_is_computed_again(folder, model):
    assert (folder / "record.html").is_file()
    threads = torch.get_num_threads()
    torch.set_num_threads(3 - min(threads, 2))
    try:
        code, said = verify(folder, model)
    finally:
        torch.set_num_threads(threads)
    assert code == 0 and "are confirmed" in said, said
    assert run("verify", folder / "record.html", "--classifier", model)[0] == 0


def alter(*path, by):
    def change(document):
        place = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = by(place[path[-1]])

    return change


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (alter("text", "segments", 0, by=lambda text: text.replace("no", "a")), "text"),
        (alter("text", "words", by=lambda count: count + 1), "text"),
        (alter("text", "sha256", 0, by=lambda digest: digest[::-1]), "text"),
        (alter("classifier", "sha256", by=lambda digest: digest[::-1]), "classifier"),
        (alter("method", "sha256", by=lambda digest: digest[::-1]), "method"),
        (alter("scores", 0, by=lambda score: score + 0.1 * abs(score) + 0.01), "scores"),
        (alter("answer", "probabilities", "no", by=lambda p: p * 0.9 + 0.01), "answer"),
        (alter("answer", "label", by=lambda label: {"no": "yes", "yes": "no"}[label]), "answer"),
        (alter("elements", 0, "without", "probabilities", "no", by=lambda p: p * 0.9 + 0.01), "elements"),
        (alter("elements", 0, "word", by=lambda word: "kind"), "elements"),
        (alter("elements", by=lambda elements: elements[1:]), "elements"),
        (alter("change", "edits", by=lambda edits: []), "change"),
        (alter("change", "answer", by=lambda answer: None), "change"),
    ],
)
def test_an_altered_record_is_refused(folder, model, change, part):
    document = read(folder)
    change(document)
    write(folder, document)
    code, said = verify(folder, model)
    assert code == 1 and any(line.startswith(f"{part}: ") for line in said.splitlines()), said


def test_another_classifier_and_another_page_are_refused(folder, tmp_path):
    other = tiny.save(tmp_path / "other", "bert", seed=1)
    page = folder / "record.html"
    page.write_text(page.read_text(encoding="utf-8").replace("0.", "1."), encoding="utf-8")
    code, said = verify(folder, other)
    assert code == 1 and "page: record.html differs" in said and "classifier: is not classifier" in said


def test_a_field_that_no_record_has_is_named(folder, model):
    document = read(folder)
    document["approved_by"] = "the board"
    document["answer"]["note"] = "reviewed"
    document["elements"][0]["note"] = "reviewed"
    document["made"]["Approved"] = "2020-01-01"
    write(folder, document)
    code, said = verify(folder, model)
    assert code == 1
    for name in ("approved_by", "answer.note", "elements.0.note", "made.Approved"):
        assert f"{name}: is no field that Explearn writes" in said


def test_a_record_without_its_page_is_confirmed_but_for_the_page(folder, model):
    (folder / "record.html").unlink()
    code, said = verify(folder, model)
    assert code == 3 and "page: record.html is missing" in said and "1 thing could not be found" in said


def test_a_signature_covers_all_of_the_record(tmp_path, model):
    private, public = keys(tmp_path, "mine")
    _, others = keys(tmp_path, "others")
    code, said = run("record", TEXT, "--classifier", model, "--key", private, "--out", tmp_path / "record.html")
    assert code == 0, said
    assert verify(tmp_path, model)[0] == verify(tmp_path, model, "--key", public)[0] == 0
    code, said = verify(tmp_path, model, "--key", others)
    assert code == 1 and "signature: is by another key" in said
    document = read(tmp_path)
    document["made"]["Date"] = "2020-01-01 00:00 UTC"
    write(tmp_path, document)
    code, said = verify(tmp_path, model, "--key", public)
    assert code == 1 and "signature: does not fit the record" in said
    document["signature"] = None
    write(tmp_path, document)
    code, said = verify(tmp_path, model, "--key", public)
    assert code == 1 and "signature: there is none" in said


def test_a_record_without_the_text_names_no_word(tmp_path, model):
    out = tmp_path / "record.html"
    assert run("record", TEXT, "--classifier", model, "--hash-only", "--out", out)[0] == 0
    kept = out.read_text(encoding="utf-8") + (tmp_path / "record.json").read_text(encoding="utf-8")
    assert not any(word in kept for word in ("unbelievably", "delivery", "refund", "whatsoever"))
    assert verify(tmp_path, model, "--text", TEXT)[0] == 0
    for text in (TEXT.replace("slow", "fast"), "no refund"):
        code, said = verify(tmp_path, model, "--text", text)
        assert code == 1 and "text: differs" in said
    saying.command_complaint("verify", str(out), "--classifier", str(model), words=("--text", "SHA-256"))


def test_another_class_is_explained_and_made_the_answer(tmp_path, model):
    out = tmp_path / "record.html"
    answer = explearn.record(model, TEXT, "occlusion", device="cpu")
    (other,) = {"no", "yes"} - {answer.target}
    record = explearn.record(model, TEXT, "occlusion", target=other, device="cpu", out=out)
    assert record.answer == answer.answer and record.target == other
    assert record.scores == pytest.approx([-score for score in answer.scores], abs=1e-5)
    assert record.change.answer is not None and record.change.answer.label == other
    assert f"makes {other} the answer" in str(record)
    assert verify(tmp_path, model)[0] == 0
    saying.complaint(lambda: explearn.record(model, TEXT, target="maybe"), "unknown class 'maybe'")


def test_a_class_is_explained_against_another(tmp_path):
    folder = tiny.save(tmp_path / "three", classes=3)
    out = tmp_path / "record.html"
    classifier = explearn.load_classifier(folder, device="cpu")
    first, second, _ = classifier.labels
    record = explearn.record(folder, TEXT, "gradient", target=first, versus=second, device="cpu", out=out)
    expected = explearn.explain(explearn.versus(classifier, second), TEXT, "gradient", targets=first)
    assert record.scores == pytest.approx(expected.scores.tolist(), abs=1e-6)
    assert record.value == pytest.approx(expected.value, abs=1e-5)
    assert f"{first} versus {second}" in out.read_text(encoding="utf-8")
    assert verify(tmp_path, folder)[0] == 0


def test_each_text_of_a_file_gets_a_record(tmp_path, model):
    (tmp_path / "t.txt").write_text(f"{TEXT}\na fox\n")
    out = ("--classifier", model, "--texts", tmp_path / "t.txt", "--out", tmp_path / "record.html")
    code, said = run("record", *out)
    assert code == 0 and said.count("\n") == 2, said
    assert run("verify", tmp_path / "record-2.html", "--classifier", model)[0] == 0
    saying.command_complaint("record", TEXT, *map(str, out), words=("--texts: got other texts",))
    saying.command_complaint("record", "--classifier", str(model), words=("text: got none",))


def test_in_python_it_prints_what_it_found_and_how_to_go_on(model):
    record = explearn.record(model, TEXT, "occlusion", device="cpu")
    lines = str(record).splitlines()
    assert lines == repr(record).splitlines() and lines[:-1] == record.sentences() and len(lines) < 12
    assert "explearn.verify" in lines[-1]


def test_the_best_method_of_a_comparison_is_taken(tmp_path, model):
    comparison = explearn.compare(model, tiny.TEXTS, "random,occlusion,gae", out=tmp_path / "report.html")
    ranked = {name: comparison.figures[name]["aopc_comprehensiveness"] for name in ("occlusion", "gae")}
    record = explearn.record(model, TEXT, comparison=tmp_path / "report.json", device="cpu")
    assert record.method.name == max(ranked, key=lambda name: ranked[name])
    assert record.method.chosen == "best in the comparison"
    assert record.population is not None and record.population.caveats
    figure = comparison.figures[record.method.name]["aopc_comprehensiveness"]
    assert f"{figure:.3f}" in record.population.sentences[0]
    other = tiny.save(tmp_path / "other", "bert", seed=1)
    saying.complaint(lambda: explearn.record(other, TEXT, comparison=tmp_path / "report.json"), "another classifier")
    saying.complaint(lambda: explearn.record(model, TEXT, comparison=model / "config.json"), "names no evaluation")
    (tmp_path / "report.evaluation" / "pairs.parquet").unlink()
    saying.complaint(lambda: explearn.record(model, TEXT, comparison=tmp_path / "report.json"), "pairs.parquet")


def test_words_are_exchanged_by_the_checkpoints_own_masked_word_head(tmp_path, model):
    saying.complaint(lambda: explearn.record(model, TEXT, exchange="masked", device="cpu"), "masked-word head")
    words = tiny.tokenizer("bert")
    config = transformers.AutoConfig.from_pretrained(model)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = transformers.AutoModelForMaskedLM.from_config(config)
    classifier = transformers.AutoModelForSequenceClassification.from_pretrained(model)
    own = classifier.state_dict()
    weights = {name: tensor.clone() for name, tensor in {**head.state_dict(), **own}.items()}
    classifier.save_pretrained(tmp_path, state_dict=weights)
    words.save_pretrained(tmp_path)
    record = explearn.record(tmp_path, TEXT, exchange="masked", out=tmp_path / "record.html", device="cpu")
    assert record.change.exchange == "masked" and record.change.answer is not None
    assert verify(tmp_path, tmp_path)[0] == 0


def test_a_list_of_words_to_exchange(tmp_path):
    def rude(texts):
        return [[0.1, 0.9] if "kind" not in text else [0.8, 0.2] for text in texts]

    classifier = explearn.FunctionPredictor(rude, ["polite", "rude"], name="rules")
    record = explearn.record(classifier, "Mean words", exchange={"mean": ["kind"]})
    assert [(edit.word, edit.replacement) for edit in record.change.edits] == [("Mean", "kind")]
    saying.complaint(lambda: explearn.record(classifier, "Mean", exchange={"mean": ["kind"]}, hash_only=True), "text")


def test_what_is_wrong_is_said_in_a_sentence(folder, model, tmp_path):
    (tmp_path / "key.pem").write_text("no key", encoding="utf-8")
    given = ("record", TEXT, "--classifier", str(model), "--out", str(tmp_path / "other.html"))
    if pytest.importorskip("cryptography"):
        saying.command_complaint(*given, "--key", str(tmp_path / "key.pem"), words=("key.pem", "openssl"))
    saying.command_complaint("record", "  ", *given[2:], words=("word",))
    saying.command_complaint(*given[:-1], str(tmp_path / "key.pem"), words=("key.pem",))
    assert not (tmp_path / "other.html").exists()
    for folder_name in (".", "/", ""):
        saying.command_complaint(*given[:-1], folder_name, words=("is a folder",))
    write(folder, {**read(folder), "record": 9})
    saying.command_complaint("verify", str(folder / "record.json"), words=("version 9",))
    write(folder, {**read(folder), "record": 1, "text": {**read(folder)["text"], "segments": []}})
    saying.command_complaint("verify", str(folder / "record.json"), words=("text.segments",))
    write(folder, {"record": 1})
    saying.command_complaint("verify", str(folder / "record.json"), words=("text",))


def test_the_schema_is_of_the_record(folder):
    code, said = run("record", "--schema")
    schema = json.loads(said)
    assert code == 0 and set(read(folder)) == set(schema["properties"])


def test_the_page_of_explain_is_verified_too(model, tmp_path):
    page = tmp_path / "page.html"
    code, said = run("explain", TEXT, "--classifier", model, "--out", page)
    assert code == 0, said
    assert run("verify", page)[0] == 0
    page.write_text(page.read_text(encoding="utf-8").replace("slow", "fast"), encoding="utf-8")
    code, said = run("verify", page)
    assert code == 1 and "page: page.html differs" in said
    page.with_suffix(".csv").touch()
    for name in ("page.csv", "page.nonexistent"):
        code, said = run("verify", tmp_path / name)
        assert code == 2 and f"{name}'; expected a page" in said
    page.unlink()
    code, said = run("verify", page)
    assert code == 2 and "which must exist" in said


def test_a_record_of_one_word_says_that_nothing_could_be_tried():
    def predict(texts):
        return [[0.2, 0.8] if text else [0.9, 0.1] for text in texts]

    classifier = explearn.FunctionPredictor(predict, ["no", "yes"])
    record = explearn.record(classifier, "hello", "occlusion")
    said = str(record)
    assert "No change could be tried" in said and "Without “hello” no word would be left" in said
    assert "0 changed texts" not in said and "effects above" not in said
    assert record.method.output == "probability"
