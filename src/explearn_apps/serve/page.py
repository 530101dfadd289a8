"""The page: a form, and below it the prediction for a text with explanations. It works without a script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import FastAPI, Request
from jinja2 import Environment
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from explearn.core.errors import DataError, ExplearnError
from explearn.core.escape import printable
from explearn.core.validation import check, whole_number
from explearn.methods.info import first_sentence
from explearn.show.display import LOOK, STYLE, rows
from explearn.show.templates import html_templates
from explearn.text.units import UNITS
from explearn_apps.serve.engine import Engine, TextAnswer
from explearn_apps.serve.schemas import ExplainRequest, result

SHOWN_LABELS = 8
"""Number of most probable labels that are listed."""

EXAMPLE = "The plot is thin, but the actors are warm and funny."
"""Example text offered by the page."""

LINK_CHARS = 6000
"""Longest URL of a result. Proxies such as nginx refuse request lines of more than 8,000 characters."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form as it was sent.

    Attributes:
        label: index of the class, empty for the predicted one; names may hold characters that no page shows.
        before: the previously explained text, with its second segment.
    """

    text: str = ""
    pair: str = ""
    method: tuple[str, ...] = ()
    label: str = ""
    unit: str = "word"
    before: str = ""
    before_pair: str = ""

    @property
    def changed(self) -> bool:
        """True if a different text was explained before."""
        return bool(self.before.strip()) and (self.before, self.before_pair) != (self.text, self.pair)


@cache
def _environment() -> Environment:
    environment = html_templates("explearn_apps.serve")
    # Of what is read, not of what is sent back: fields hold their text as it was.
    environment.filters["plain"] = lambda text: printable(text, one_line=True)
    environment.filters["type_of"] = type_of
    environment.filters["breakable"] = lambda name: Markup("_<wbr>").join(
        Markup.escape(printable(name, one_line=True)).split("_")
    )
    return environment


def type_of(schema: Mapping[str, Any]) -> str:
    """Describe the type of a JSON schema in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(type_of, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def read_form(body: bytes) -> Form:
    """Return the form's fields. Raises HTTPException for anything that the page's form does not send."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=100
        )
    except ValueError as error:
        raise HTTPException(400, "the form cannot be read; expected at most 100 fields in UTF-8") from error
    # Browsers send lines with CR and LF, and count characters without CR.
    fields: dict[str, Any] = {name: value.replace("\r\n", "\n") for name, value in pairs}
    if unknown := sorted(set(fields) - set(Form.__slots__)):
        raise HTTPException(422, f"the form has an unknown field {printable(unknown[0])[:40]!r}")
    methods = tuple(value for name, value in pairs if name == "method")
    return Form(**fields | {"method": methods})


def add_page(app: FastAPI, engine: Engine) -> None:
    """Add the page and its files."""

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        # A result's URL contains its form.
        if query := request.scope["query_string"]:
            return await answered(request, query)
        return _page(engine, Form(method=(next(iter(engine.explainers)),)))

    @app.post("/", include_in_schema=False)
    async def explained(request: Request) -> Response:
        return await answered(request, await request.body())

    async def answered(request: Request, body: bytes) -> Response:
        form = Form()
        try:
            form = read_form(body)
            return _page(engine, form, await _explain(engine, request, form))
        except HTTPException as error:
            return _page(engine, form, None, error.detail, error.status_code, error.headers)
        except ExplearnError as error:
            return _page(engine, form, None, str(error), 422)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        # FastAPI's own page loads scripts from other sites.
        api = app.openapi()
        schemas = {"ExplainRequest": ExplainRequest.model_json_schema(), **api["components"]["schemas"]}
        return HTMLResponse(_environment().get_template("docs.html.j2").render(api=api, schemas=schemas))

    def asset(name: str) -> str:
        return resources.files("explearn_apps.serve").joinpath("templates", name).read_text(encoding="utf-8")

    @app.get("/page.css", include_in_schema=False)
    async def css() -> Response:
        return Response(LOOK + asset("page.css") + STYLE, media_type="text/css")

    @app.get("/page.js", include_in_schema=False)
    async def script() -> Response:
        return Response(asset("page.js"), media_type="text/javascript")


def _page(
    engine: Engine,
    form: Form,
    shown: dict[str, Any] | None = None,
    error: str = "",
    status: int = 200,
    headers: Any = None,
) -> Response:
    template = _environment().get_template("page.html.j2")
    html = template.render(
        form=form,
        shown=shown,
        error=error,
        classifier=engine.classifier.name,
        labels=engine.classifier.labels,
        takes_pairs=engine.takes_pairs,
        regression=not engine.has_probabilities,
        units=UNITS,
        verdict=engine.verdict,
        methods=[
            (name, e.about.cost, engine.seconds.get(name), first_sentence(type(e).__doc__ or ""))
            for name, e in engine.explainers.items()
        ],
        example="?" + urlencode({"text": EXAMPLE, "method": next(iter(engine.explainers))}),
        most=engine.limits.text_chars,
    )
    return HTMLResponse(html, status, headers)


async def _explain(engine: Engine, request: Request, form: Form) -> dict[str, Any]:
    """Return the page's content for a text.

    Keys: heading; rows, each label's probability or value, now and before a change, with its share of the bar;
    left_out, number of labels that are not listed; link, the result's URL, empty if it is too long; json, the answer as
    a data URL; heatmaps; words that can be changed, each with its part of the form.
    """
    labels = engine.classifier.labels
    label = whole_number(form.label, len(labels) - 1) if form.label else None
    if form.label and label is None:
        raise HTTPException(422, f"label: expected a number from 0 to {len(labels) - 1}")
    if not form.method:
        raise HTTPException(422, "Choose at least one method.")

    async def ask(text: str, pair: str, **wanted: Any) -> TextAnswer:
        segments = {"texts": [text], "pairs": [pair] if pair.strip() else None}
        (answer,) = await engine.answer(request, check(ExplainRequest, segments | wanted, DataError))
        return answer

    chosen = None if label is None else [labels[label]]
    answer = await ask(
        form.text, form.pair, methods=list(form.method), label=chosen, unit=form.unit, probabilities=True
    )
    now, before = _by_label(answer), dict[str, float]()
    if form.changed:
        # For a regression, the value comes with an explanation.
        methods = [] if engine.has_probabilities else list(form.method[:1])
        before = _by_label(await ask(form.before, form.before_pair, methods=methods))
    first = answer.by_method[0][0]
    predicted = dict.fromkeys(a.predicted for of_method in answer.by_method for a in of_method)
    heading, largest = list(predicted), 1.0
    if not engine.has_probabilities:
        heading, largest = [f"{name}: {value:.4g}" for name, value in now.items()], max(map(abs, now.values())) or 1.0
    listed = sorted(now, key=lambda name: -now[name])[:SHOWN_LABELS]
    sent = {"text": form.text, "pair": form.pair, "method": form.method, "label": form.label, "unit": form.unit}
    link = "?" + urlencode(sent, doseq=True)
    record = result(answer.probabilities, [a for of_method in answer.by_method for a in of_method])
    return {
        "link": link if len(link) <= LINK_CHARS else "",
        "json": "data:application/json," + quote(json.dumps({"text": form.text, "pair": form.pair, **record})),
        "heading": ", ".join(heading),
        "rows": [
            {"label": name, "now": now[name], "before": before.get(name), "share": abs(now[name]) / largest}
            for name in listed
        ],
        "left_out": len(now) - len(listed),
        # For each explained class, one attribution per method.
        "heatmaps": [Markup(rows(together)) for together in zip(*answer.by_method, strict=True)],
        "words": [
            {
                "text": word,
                "part": "pair" if first.pair_start is not None and index >= first.pair_start else "text",
                "start": start,
                "end": end,
            }
            for index, (word, (start, end)) in enumerate(zip(first.words, first.spans, strict=True))
        ],
    }


def _by_label(answer: TextAnswer) -> dict[str, float]:
    """Return each label's probability, or value for a regression."""
    if answer.probabilities is not None:
        return answer.probabilities
    return {a.target: a.value for of_method in answer.by_method for a in of_method if a.value is not None}
