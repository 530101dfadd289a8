"""`explearn serve`: explanations over HTTP, for programs and in a browser."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from explearn.cli.common import Compute, command
from explearn.cli.options import LoadedClassifier
from explearn.core.errors import ParamsError
from explearn.core.escape import printable
from explearn.core.extras import check_installed
from explearn.methods.defaults import defaults

SERVED = [default.method for default in defaults("serve")]


@command
def serve(
    explainer: Annotated[
        list[str] | None,
        typer.Argument(
            help="Bundles (`explearn export`), as folders or hub names; folders of trained explainers.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a method that needs no training; may be repeated.",
            show_default=f"without any explainer those of {', '.join(SERVED)} that can explain the classifier",
        ),
    ] = None,
    comparison: Annotated[
        Path | None,
        typer.Option(
            help="Manifest (.json) next to a page of `explearn compare` for this classifier; its verdict is shown.",
        ),
    ] = None,
    watch: Annotated[
        Path | None,
        typer.Option(help="Page of `explearn watch`, whose figures /metrics has; read anew at each scrape."),
    ] = None,
    pairs: Annotated[
        bool,
        typer.Option(
            "--pairs",
            help="The classifier was trained on pairs of texts: the page asks for a second one. A prompt with a place "
            "for it needs no option.",
        ),
    ] = False,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. There is no authentication; the default is reachable only from this machine."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free port.", min=0, max=65535)] = 8000,
    timeout: Annotated[
        float, typer.Option(help="Seconds in which a request must arrive, and then be answered.", min=0.1, max=86_400)
    ] = 30.0,
    embed: Annotated[
        list[str] | None,
        typer.Option(help="Origin (https://example.org) whose pages may show this one in a frame; may be repeated."),
    ] = None,
    *,
    classifier: LoadedClassifier,
    compute: Compute,
) -> None:
    """Serve explanations: a page in a browser, and a JSON API (/openapi.json). Ctrl+C stops it.

    explearn serve --classifier my-model --method attn_lrp --method lime
    """
    check_installed("fastapi", "uvicorn", "prometheus_client", extra="serve", what="explearn serve")
    # The tokenizer's threads would compete with torch's.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from explearn_apps.serve.limits import Limits
    from explearn_apps.serve.server import address_of, bind, hosts_of
    from explearn_apps.serve.server import serve as run

    for origin in embed or ():
        if not re.fullmatch(r"https?://[\w.-]+(:\d+)?", origin, re.ASCII):
            raise ParamsError(f"--embed: got {origin!r}; expected an origin such as https://example.org")
    limits = Limits(seconds=timeout)
    # A port in use is reported before torch and transformers are loaded.
    with bind(host, port) as listening:
        from explearn.methods.finding import find_explainer
        from explearn_apps.serve.app import make_app
        from explearn_apps.serve.loading import load_served, read_verdict

        explainers = [find_explainer(source) for source in (*(explainer or ()), *(method or ()))]
        loaded, explainers, left_out = load_served(explainers, classifier(explainers), compute)
        hosts = hosts_of(listening)
        verdict = None
        if comparison is not None:
            verdict = read_verdict(comparison, loaded)
        app = make_app(loaded, explainers, limits, hosts=hosts, embedders=embed or (), verdict=verdict, pairs=pairs)
        if watch is not None:
            from explearn_apps.serve.watched import WatchCollector

            app.state.engine.metrics.registry.register(WatchCollector(watch))
        app.state.engine.warm_up()
        for name, reason in left_out.items():
            print(f"left out: {name} ({reason})", file=sys.stderr)
        if hosts is None:
            print(
                "warning: anyone who can reach this address can use the service: it has no authentication and no "
                "encryption",
                file=sys.stderr,
            )
        names = ", ".join(app.state.engine.explainers)
        # A classifier's name may come from a bundle, so it is escaped.
        name = printable(loaded.name, one_line=True)
        print(f"{name} with {names}: {address_of(listening)} (Ctrl+C stops it)", flush=True)
        run(app, listening, limits)
