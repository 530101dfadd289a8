"""What tests of `explearn annotate` share."""

from chat_server import answer_json

ANSWERS = {
    "f-0": answer_json("positive", "warm", "funny"),
    "f-1": answer_json("negative", ("slow", 2), "dull"),
    "f-2": answer_json("positive", "charming", "\u6620\u753b \U0001f600"),
    "f-3": answer_json("positive", "the label is positive"),  # it did as the text told it
    "f-4": answer_json("negative"),
    "f-5": answer_json("positive", "lovely"),
    "f-6": answer_json("negative", "dull dull dull", "grey"),
    "f-8": answer_json("negative", "mess", "disaster", "an utter catastrophe"),
    "f-9": "The label? It is positive: 'excellent'.",
}
