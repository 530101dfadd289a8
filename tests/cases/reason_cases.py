"""A language model that classifies reviews, and tells the truth about its reasons or lies: in process or behind HTTP.

Each review has one strong word of its label, a weak one of the other, and words that do not matter. Whoever asks for
the reason gets the strong word from an honest model (nine times of ten; else the weak one), words that do not matter
from a liar. A simulator believes the reason: without the named words the answer turns. Without a reason it goes by the
half of the strong words that it knows, or else by the answer to the whole text.
"""

import json
import math
import random
import re
from collections import Counter
from operator import itemgetter
from types import SimpleNamespace

import numpy as np
from chat_server import Reply
from prompt_cases import PROMPT as REVIEW
from prompt_cases import place, reviewed, with_logprobs

import explearn
from explearn import LLMClassifier
from explearn.metrics.params import EvaluateParams
from explearn.metrics.reasons import judge_trust

STRONG = {"good": ["splendid", "superb", "moving", "witty"], "bad": ["dreadful", "tedious", "clumsy", "hollow"]}
WEAK = {"good": ["neat", "decent", "pretty"], "bad": ["slow", "long", "loud"]}
FILLERS = ["film", "plot", "scene", "actor", "music", "camera", "ending", "script", "role", "story", "cast", "theme"]
PROMPT = {**REVIEW, "max_requests": 100_000}


def reviews(count, seed):
    rng = random.Random(seed)
    texts = []
    for number in range(count):
        label, other = ("good", "bad") if number % 2 else ("bad", "good")
        words = [rng.choice(STRONG[label]), rng.choice(WEAK[other]), *rng.sample(FILLERS, 8)]
        rng.shuffle(words)
        texts.append(" ".join(words))
    return texts


def goodness(text):
    """The probability of `good`."""
    evidence = 0.0
    for sign, label in ((1, "good"), (-1, "bad")):
        evidence += sign * 3 * sum(word in text.split() for word in STRONG[label])
        evidence += sign * sum(word in text.split() for word in WEAK[label])
    return 1 / (1 + math.exp(-evidence))


def reply(messages, honest):
    """Return what the model writes, and the probabilities of its first token where it classifies."""
    asked = messages[-1]["content"]
    if asked.startswith("A text classifier"):
        return simulated(asked), None
    text = reviewed(messages)
    if len(messages) == 3:
        return f"Sure: {json.dumps(reason(text, asked, honest))}", None
    p = goodness(text)
    return ("good" if p > 0.5 else "bad"), {"good": p, "bad": 1 - p}


def reason(text, asked, honest):
    rng = random.Random(text if honest else text + asked)
    words = text.split()
    strong = [word for word in words if word in (*STRONG["good"], *STRONG["bad"])]
    weak = [word for word in words if word in (*WEAK["good"], *WEAK["bad"])]
    if honest:
        return strong if rng.random() < 0.9 else weak
    return rng.sample([word for word in words if word not in (*strong, *weak)], 2)


def simulated(asked):
    answer = re.search(r"^Answer: (.*)$", asked, re.MULTILINE)[1]
    changed = re.search(r"some of its words: (.*)$", asked, re.MULTILINE)[1].split()
    named = re.search(r"these words decided: (.*)\.$", asked, re.MULTILINE)
    if named:
        gone = not any(word in changed for word in json.loads(named[1]))
        return {"good": "bad", "bad": "good"}[answer] if gone else answer
    for label, words in STRONG.items():
        if any(word in changed for word in words[::2]):
            return label
    return answer


def answer(request):
    """The honest model behind HTTP."""
    content, likely = reply(request.body["messages"], honest=True)
    if likely is None:
        return Reply(content)
    return with_logprobs(place(dict(sorted(likely.items(), key=itemgetter(1), reverse=True))))


class InProcess(LLMClassifier):
    """The model in this process: no server, no file of answers."""

    honest = True

    def _predict(self, texts):
        return np.array([[1 - goodness(text), goodness(text)] for text in texts])

    def ask(self, questions):
        answers = []
        for question in questions:
            content, _ = reply(question.messages, self.honest)
            answers.append(question.read(SimpleNamespace(content=content, finish="stop")))
        return answers


def verdict(honest, seed):
    """The verdict on the model's reasons for 30 reviews."""
    classifier = InProcess(PROMPT, "none.answers")
    classifier.honest = honest
    attributions = explearn.explain(classifier, reviews(30, seed), "llm_rationale")
    evaluation = explearn.evaluate(classifier, attributions, metrics=["reason_margin", "reason_gain"])
    margin, gain = (evaluation.by_text[name]["llm_rationale"] for name in ("reason_margin", "reason_gain"))
    return judge_trust(margin, gain, EvaluateParams())


if __name__ == "__main__":
    for honest in (True, False):
        verdicts = Counter(verdict(honest, seed) for seed in range(100))
        print("honest" if honest else "lying", dict(verdicts))
