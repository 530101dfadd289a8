"""Prompts in a model's own chat template: guards of chats, asked as their model cards do, on tiny random copies."""

import copy
import json

import numpy as np
import pytest
import tiny
import torch
from rounding import assert_close

import explearn
from explearn import LLMClassifier, ModelError, ParamsError, UnsupportedError, load_classifier
from explearn.predictors.heads.completion import COMPLETION_FILE
from explearn.predictors.params import CompletionParams

TEXT = "unbelievably slow delivery and a dog"
REPLY = "our guide was friendly"

LLAMA_MARKS = ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
GEMMA_MARKS = ["<start_of_turn>", "<end_of_turn>"]

# As Llama 3's.
LLAMA_3 = (
    "{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' "
    "+ message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
# As Gemma 2's, without a system role.
GEMMA_2 = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
# Built like Llama Guard 3 1B's: the last role is judged, messages are lists of parts, answers begin with a blank line.
LLAMA_GUARD = (
    "{% set role = 'Agent' if messages | length % 2 == 0 else 'User' %}"
    "{{ bos_token + '<|start_header_id|>user<|end_header_id|>\n\nunsafe content in ' + role + ' messages?\n' }}"
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% for part in message['content'] %}{{ message['role'] + ': ' + part['text'] | trim + '\n' }}{% endfor %}"
    "{% endfor %}{{ '<|eot_id|><|start_header_id|>assistant<|end_header_id|>' }}"
)
# Built like ShieldGemma's: a guideline, then the last message is judged.
SHIELD_GEMMA = (
    "{{ bos_token + 'you are a policy expert.\n\n<start_of_turn>\nHuman Question: ' + messages[0]['content'] | trim }}"
    "{% if messages | length > 1 %}{{ '\nChatbot Response: ' + messages[1]['content'] | trim }}{% endif %}"
    "{{ '\n<end_of_turn>\n\nour safety principle:\n\n' + guideline + '\n\nis it violated?\n\n' }}"
)


def save_chat_model(folder, kind, template, marks, prompt):
    """Save a tiny random model of one architecture with a chat template and its prompt."""
    words = copy.deepcopy(tiny.tokenizer(kind, 200))
    words.add_special_tokens({"additional_special_tokens": marks})
    words.chat_template = template
    config = {"vocab_size": len(words), "max_position_embeddings": 200}
    if kind == "gemma2":
        # Far below the logits, so that the cap shows.
        config["final_logit_softcapping"] = 0.5
    model = tiny.language_model(kind, **config)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    (folder / COMPLETION_FILE).write_text(json.dumps(prompt), encoding="utf-8")
    return model, words


def by_library(model, words, messages, options, begun, label_words):
    """Return a chat's ids and its label words' probabilities, by transformers alone."""
    ids = list(words.apply_chat_template(messages, add_generation_prompt=True, **options)["input_ids"])
    ids += words(begun, add_special_tokens=False)["input_ids"]
    first = [words(word, add_special_tokens=False)["input_ids"][0] for word in label_words]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1, first]
    return ids, logits.double().softmax(0).numpy()


def parts(text):
    return [{"type": "text", "text": text}]


SAFE = {"safe": "safe", "unsafe": "unsafe"}
YES = {"safe": "No", "unsafe": "Yes"}
SHOTS = [{"text": "lazy", "label": "unsafe"}]
GUIDELINE = {"guideline": "no slow deliveries"}
BY_TEMPLATE = "is this slow? {text}"

# Architecture, template, marks, prompt, text, and the messages that the library gets.
CASES = {
    "Llama 3, system role": (
        "llama",
        LLAMA_3,
        LLAMA_MARKS,
        {"template": BY_TEMPLATE, "instruction": "say safe or unsafe", "shots": SHOTS, "label_words": SAFE, "chat": {}},
        TEXT,
        [
            {"role": "system", "content": "say safe or unsafe"},
            {"role": "user", "content": "is this slow? lazy"},
            {"role": "assistant", "content": "unsafe"},
            {"role": "user", "content": f"is this slow? {TEXT}"},
        ],
    ),
    "Gemma 2, no system role": (
        "gemma2",
        GEMMA_2,
        GEMMA_MARKS,
        {"template": BY_TEMPLATE, "instruction": "say yes or no", "shots": SHOTS, "label_words": YES, "chat": {}},
        TEXT,
        [
            {"role": "user", "content": "say yes or no\n\nis this slow? lazy"},
            {"role": "assistant", "content": "Yes"},
            {"role": "user", "content": f"is this slow? {TEXT}"},
        ],
    ),
    "Llama Guard, a message": (
        "llama",
        LLAMA_GUARD,
        LLAMA_MARKS,
        {"template": "{text}", "label_words": SAFE, "chat": {"answer": "\n\n"}},
        TEXT,
        [{"role": "user", "content": parts(TEXT)}],
    ),
    "Llama Guard, a reply": (
        "llama",
        LLAMA_GUARD,
        LLAMA_MARKS,
        {"template": "{text}", "label_words": SAFE, "chat": {"answer": "\n\n", "reply": "{pair}"}},
        (TEXT, REPLY),
        [{"role": "user", "content": parts(TEXT)}, {"role": "assistant", "content": parts(REPLY)}],
    ),
    "ShieldGemma, a message": (
        "gemma2",
        SHIELD_GEMMA,
        GEMMA_MARKS,
        {"template": "{text}", "label_words": YES, "chat": {"variables": GUIDELINE}},
        TEXT,
        [{"role": "user", "content": TEXT}],
    ),
    "ShieldGemma, a reply": (
        "gemma2",
        SHIELD_GEMMA,
        GEMMA_MARKS,
        {"template": "{text}", "label_words": YES, "chat": {"variables": GUIDELINE, "reply": "{pair}"}},
        (TEXT, REPLY),
        [{"role": "user", "content": TEXT}, {"role": "assistant", "content": REPLY}],
    ),
}


@pytest.fixture(scope="module")
def chats(tmp_path_factory):
    made = {}
    for name, (kind, template, marks, prompt, _, _) in CASES.items():
        folder = tmp_path_factory.mktemp("chat")
        made[name] = folder, *save_chat_model(folder, kind, template, marks, prompt)
    return made


@pytest.mark.parametrize("name", CASES)
def test_the_model_reads_what_the_library_s_template_gives(name, chats):
    folder, model, words = chats[name]
    *_, prompt, text, messages = CASES[name]
    chat = prompt["chat"]
    of = load_classifier(folder, device="cpu")
    ids, expected = by_library(
        model, words, messages, chat.get("variables", {}), chat.get("answer", ""), prompt["label_words"].values()
    )
    (encoding,) = of.encode([text])
    assert list(encoding.input_ids) == ids
    assert of.labels == ["safe", "unsafe"]
    # Of another length in the same batch.
    batch = [text, ("lazy", "slow") if isinstance(text, tuple) else "lazy"]
    assert_close(of.predict_proba(batch)[0], expected)
    assert encoding.words == tuple(" ".join([text] if isinstance(text, str) else text).split())


@pytest.mark.parametrize("name", ["Llama Guard, a reply", "ShieldGemma, a message"])
def test_gradients_attention_and_perturbed_texts_explain_a_guard(name, chats):
    folder, *_ = chats[name]
    text = CASES[name][4]
    of = load_classifier(folder, device="cpu")
    words = " ".join([text] if isinstance(text, str) else text).split()
    for method in ("input_x_gradient", "attn_lrp", "occlusion", "raw_attention"):
        attribution = tiny.quick(method).explain(of, [text], ["unsafe"])[0]
        assert len(attribution.scores) == len(words), method
        assert np.isfinite(attribution.scores).all(), method


def test_of_a_soft_cap_the_difference_of_two_classes_is_that_of_capped_logits(chats):
    folder, *_ = chats["ShieldGemma, a message"]
    of = load_classifier(folder, device="cpu")
    encodings = of.encode([TEXT])
    safe, unsafe = of.predict_logits(encodings)[0]
    assert max(abs(safe), abs(unsafe)) <= 0.5
    assert_close(explearn.versus(of, "safe").predict_logits(encodings)[0], [unsafe - safe])
    with pytest.raises(UnsupportedError):
        explearn.explain(of, TEXT, "lrp")


@pytest.mark.parametrize("name", ["Llama 3, system role", "ShieldGemma, a message"])
def test_saved_and_loaded_it_is_the_same_guard(name, chats, tmp_path):
    folder, *_ = chats[name]
    of = load_classifier(folder, device="cpu")
    of.save_pretrained(tmp_path / "saved")
    again = load_classifier(tmp_path / "saved", device="cpu")
    assert again.fingerprint == of.fingerprint
    np.testing.assert_array_equal(again.predict_proba([TEXT]), of.predict_proba([TEXT]))


def test_another_chat_template_makes_another_classifier(chats, tmp_path):
    folder, model, words = chats["Llama 3, system role"]
    other = copy.deepcopy(words)
    other.chat_template = LLAMA_3.replace("{{ bos_token }}", "{{ bos_token }}today")
    model.save_pretrained(tmp_path)
    other.save_pretrained(tmp_path)
    prompt = CASES["Llama 3, system role"][3]
    changed = load_classifier(tmp_path, device="cpu", completion=prompt)
    assert changed.fingerprint != load_classifier(folder, device="cpu").fingerprint


def test_a_chat_that_cannot_be_is_refused(chats, tmp_path):
    folder, *_ = chats["ShieldGemma, a message"]
    prompt = {"template": "{text}", "label_words": YES, "chat": {}}
    # Without the variable that the template takes.
    with pytest.raises(ModelError, match="chat template does not take this prompt"):
        load_classifier(folder, device="cpu", completion=prompt)
    # A reply without the second segment.
    twice = {"template": "{text}", "label_words": YES, "chat": {"reply": "so"}}
    with pytest.raises(ParamsError, match="chat, reply"):
        load_classifier(folder, device="cpu", completion=twice)
    tiny.language_model("gpt2").save_pretrained(tmp_path)
    tiny.tokenizer("gpt2").save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no chat template"):
        load_classifier(tmp_path, device="cpu", completion=prompt)


def test_shots_beside_a_reply_and_a_chat_for_a_server_are_refused(tmp_path):
    values = {"template": "{text}", "label_words": SAFE, "chat": {"reply": "{pair}"}}
    with pytest.raises(ParamsError, match="no shots"):
        load_classifier(tmp_path, completion={**values, "shots": [{"text": "a", "pair": "b", "label": "safe"}]})
    assert CompletionParams.model_validate(values).takes_pairs
    with pytest.raises(ParamsError, match="chat: got one"):
        LLMClassifier({"template": "{text}", "label_words": {"bad": "bad", "good": "good"}, "chat": {}})
