"""Which words led to a label: a page by Gradio, on a machine of your own or as a Space.

    CLASSIFIER=my-classifier METHODS=attn_lrp,lime python app.py

CLASSIFIER is a folder or hub name of a text classifier. METHODS (default: attn_lrp,attcat,lime) are names of methods,
the first of which is chosen.
"""

from __future__ import annotations

import os

import gradio

import explearn

classifier = explearn.load_classifier(os.environ["CLASSIFIER"])
methods = os.environ.get("METHODS", "attn_lrp,attcat,lime").split(",")


def explain(text: str, method: str) -> tuple[dict[str, float], str]:
    """Return the probability of each class, and the text with its words coloured, as HTML."""
    if not text.strip():
        raise gradio.Error("Type a text first.")
    try:
        attribution = explearn.explain(classifier, text, method)
    except explearn.ExplearnError as error:
        raise gradio.Error(str(error)) from error
    (probabilities,) = classifier.predict_proba([text]).tolist()
    return dict(zip(classifier.labels, probabilities, strict=True)), attribution._repr_html_()


page = gradio.Interface(
    explain,
    [gradio.Textbox(label="Text", lines=4), gradio.Radio(methods, value=methods[0], label="Method")],
    [gradio.Label(label="Classes"), gradio.HTML(label="Words")],
    title="Why this label?",
    examples=[["The plot is thin, but the actors are warm and funny.", methods[0]]],
    flagging_mode="never",
)

if __name__ == "__main__":
    page.launch()
