"""A prompt that classifies reviews, and what a server answers to it."""

import json
import math

from chat_server import Reply

PROMPT = {
    "model": "m",
    "template": "Review: {text}\nGood or bad?",
    "label_words": {"negative": "bad", "positive": "good"},
}


def reviewed(messages):
    """The text in the prompt."""
    return messages[0]["content"].removeprefix("Review: ").removesuffix("\nGood or bad?")


def place(likely):
    """What a server says of a position: token -> probability, of which it took the first."""
    top = [{"token": token, "logprob": math.log(p)} for token, p in likely.items()]
    return {**top[0], "top_logprobs": top}


def with_logprobs(*positions):
    """A reply with the likeliest tokens at each of its positions."""
    content = "".join(position["token"] for position in positions)
    choice = {"message": {"content": content}, "logprobs": {"content": positions}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 1}
    return Reply(raw=json.dumps({"choices": [choice], "usage": usage}).encode())
