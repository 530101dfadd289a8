"""`explearn demo`: a first explanation within a minute, with nothing to download or prepare."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console

from explearn.cli.common import DEFAULT_SEED, command, tell
from explearn.core.compute import ComputeOptions
from explearn.core.writing import check_place
from explearn.methods.defaults import defaults
from explearn.methods.registry import get_info
from explearn.show.display import embed_or_write, methods_html, rows

if TYPE_CHECKING:
    from explearn.show.attributions import Attributions

WHAT = "an output of explearn demo"

SHOWN = 2
"""Number of held-out headlines that are explained if no text is given."""


@command
def demo(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Your own texts (default: two held-out headlines)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("explearn-demo.html"),
    save: Annotated[
        Path | None,
        typer.Option(help="Save the classifier to this folder, for `explearn explain --classifier FOLDER`."),
    ] = None,
) -> None:
    """Explain a text with three methods, using a news classifier that is trained on the spot.

    The classifier fine-tunes the upper layers of an encoder that comes with the package, in half a minute. It knows
    four topics: business, science, sports, world. Nothing is downloaded.

    explearn demo "A trial drug keeps its promise."
    """
    # Before the training.
    check_place(out, WHAT)
    # These load torch and transformers, which --help need not wait for.
    from explearn.api import explain
    from explearn.cli.demo.classifier import demo_classifier, headlines
    from explearn.predictors.transformer import SAVED_CLASSIFIER

    if save is not None:
        check_place(save, SAVED_CLASSIFIER, folder=True)

    console = Console()
    held_out, truth = headlines("test")
    chosen = texts or held_out[:SHOWN]
    start = time.perf_counter()
    classifier = demo_classifier(ComputeOptions("cpu"), DEFAULT_SEED, "train the demo's classifier")
    classifier.read(chosen)  # reports a text that cannot be used before anything is shown
    seconds = time.perf_counter() - start
    right = sum(predicted == label for predicted, label in zip(classifier.predict(held_out), truth, strict=True))
    topics = f"{', '.join(classifier.labels[:-1])} or {classifier.labels[-1]}"
    console.print(
        f"A news classifier ({topics}), trained in {seconds:.0f} s on {len(headlines('train')[0])} headlines. It "
        f"is right on {right} of {len(held_out)} held-out headlines.\n",
        highlight=False,
    )
    if save is not None:
        classifier.save_pretrained(save)
    methods = [default.method for default in defaults("demo")]
    attributions = cast("Attributions", explain(classifier, chosen, methods))
    console.print(attributions)
    summaries = {method: get_info(method).summary for method in methods}
    body = "".join(map(rows, attributions.texts)) + methods_html(summaries)
    tell(embed_or_write(body, out, WHAT))
