"""A prompt in a model's own chat template, by which guards of chats are asked (Llama Guard, ShieldGemma)."""

from __future__ import annotations

from itertools import product
from typing import Any

from explearn.core.errors import ModelError, first_line
from explearn.predictors.params import PAIR_SLOT, TEXT_SLOT, ChatParams, CompletionParams, around_slots


def around_in_chat(params: CompletionParams, chat: ChatParams, tokenizer: Any, name: str) -> tuple[str, str, str]:
    """Return the parts of a prompt before a text, between it and its pair, and after both, in the chat template.

    Templates differ in whether they have a system role, and in whether a message is a string or a list of parts. The
    first form is taken in which the template shows the instruction and every text.

    Args:
        params: the prompt.
        chat: its chat.
        tokenizer: the model's tokenizer.
        name: the model's name, for messages.

    Raises:
        ModelError: the tokenizer has no chat template, or none of the forms shows the texts once.
    """
    from jinja2 import TemplateError

    if tokenizer.chat_template is None:
        raise ModelError(f"{name}: its tokenizer has no chat template; expected a prompt without `chat`")
    problem = "it leaves out a text, or shows one twice"
    for system, by_parts in product((True, False), (False, True)):
        messages = messages_of(params, chat, system, by_parts)
        try:
            prompt = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **chat.variables
            )
        except (TemplateError, TypeError) as error:
            problem = first_line(error)
            continue
        once = prompt.count(TEXT_SLOT) == 1 and prompt.count(PAIR_SLOT) == int(params.takes_pairs)
        if once and params.instruction.strip() in prompt:
            return around_slots(prompt + chat.answer)
    raise ModelError(f"{name}: its chat template does not take this prompt ({problem})")


def messages_of(params: CompletionParams, chat: ChatParams, system: bool, by_parts: bool) -> list[dict[str, Any]]:
    """Return a prompt as the messages of a chat.

    Args:
        params: the prompt.
        chat: its chat.
        system: whether the instruction is the system's message; else it begins the user's first one.
        by_parts: whether a message is a list of parts instead of a string.
    """
    turns = []
    for shot in params.shots:
        turns += [("user", params.filled(shot)), ("assistant", params.label_words[shot.label].strip())]
    turns.append(("user", params.template))
    if chat.reply:
        turns.append(("assistant", chat.reply))
    if params.instruction and system:
        turns.insert(0, ("system", params.instruction))
    elif params.instruction:
        turns[0] = ("user", params.instruction + params.separator + turns[0][1])
    messages = []
    for role, text in turns:
        content: Any = text
        if by_parts:
            content = [{"type": "text", "text": text}]
        messages.append({"role": role, "content": content})
    return messages
