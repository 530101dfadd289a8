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

from explearn.core.attribution import Attribution
from explearn.core.errors import DataError, ExplearnError
from explearn.core.escape import printable
from explearn.core.validation import check, whole_number
from explearn.show.display import LOOK, STYLE, methods_html, rows
from explearn.show.templates import html_templates
from explearn.text.units import UNITS
from explearn_apps.serve.engine import Engine, TextAnswer
from explearn_apps.serve.schemas import ExplainRequest, result

SHOWN_LABELS = 8
"""Number of most probable labels that are listed."""

EXAMPLE = "The plot is thin, but the actors are warm and funny."
"""Example text offered by the page."""

EXAMPLE_PAIR = "The actors are good."
"""Its second segment, for classifiers of pairs."""

LINK_CHARS = 6000
"""Longest URL of a result. Proxies such as nginx refuse request lines of more than 8,000 characters."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form as it was sent.

    Attributes:
        text: the text.
        pair: its second segment.
        method: names of the methods.
        label: index of the class, empty for the predicted one; names may hold characters that no page shows.
        unit: the unit that is scored.
        before: the previously explained text.
        before_pair: its second segment.
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
    # Only for what is read: the fields of the form hold their text unchanged.
    environment.filters["plain"] = _plain
    environment.filters["type_of"] = _type_of
    environment.filters["breakable"] = _breakable
    return environment


def _plain(text: str) -> str:
    return printable(text, one_line=True)


def _breakable(name: str) -> Markup:
    return Markup.escape(_plain(name)).replace("_", Markup("_<wbr>"))


def _type_of(schema: Mapping[str, Any]) -> str:
    """Describe the type of a JSON schema in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(_type_of, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type_of(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def read_form(body: bytes) -> Form:
    """Return the form's fields.

    Raises:
        HTTPException: the page's form does not send this.
    """
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=100
        )
    except ValueError as error:
        raise HTTPException(400, "the form cannot be read; expected at most 100 fields in UTF-8") from error
    fields: dict[str, Any] = {"method": ()}
    for name, value in pairs:
        if name not in Form.__slots__:
            raise HTTPException(422, f"the form has an unknown field {printable(name)[:40]!r}")
        if name == "method":
            fields["method"] += (value,)
        else:
            # Browsers send lines with CR and LF, and count characters without CR.
            fields[name] = value.replace("\r\n", "\n")
    return Form(**fields)


def add_page(app: FastAPI, engine: Engine) -> None:
    """Add the page and its files."""

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        # A result's URL contains its form.
        if query := request.scope["query_string"]:
            return await answered(request, query)
        return _page(engine, Form(method=tuple(engine.explainers)[:1]))

    @app.post("/", include_in_schema=False)
    async def explained(request: Request) -> Response:
        return await answered(request, await request.body())

    async def answered(request: Request, body: bytes) -> Response:
        form = Form()
        try:
            form = read_form(body)
            return await engine.aside(request, _page, engine, form, await _explain(engine, request, form))
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
    methods = []
    for name, explainer in engine.explainers.items():
        methods.append((name, explainer.about.cost, engine.seconds.get(name), engine.summaries[name]))
    example = {"text": EXAMPLE, "method": methods[0][0]}
    if engine.asks_pairs:
        example["pair"] = EXAMPLE_PAIR
    template = _environment().get_template("page.html.j2")
    html = template.render(
        form=form,
        shown=shown,
        error=error,
        classifier=engine.classifier.name,
        labels=engine.classifier.labels,
        # A link may hold a pair that the page did not ask for.
        asks_pairs=engine.asks_pairs or bool(form.pair),
        regression=not engine.has_probabilities,
        units=UNITS,
        verdict=engine.verdict,
        methods=methods,
        example="?" + urlencode(example),
        most=engine.limits.text_chars,
    )
    return HTMLResponse(html, status, headers)


async def _explain(engine: Engine, request: Request, form: Form) -> dict[str, Any]:
    """Explain a form's text, and return the page's content (`_content`)."""
    if not form.method:
        raise HTTPException(422, "Choose at least one method.")
    wanted = {"methods": list(form.method), "unit": form.unit, "probabilities": True}
    if form.label:
        labels = engine.classifier.labels
        label = whole_number(form.label, len(labels) - 1)
        if label is None:
            raise HTTPException(422, f"label: expected a number from 0 to {len(labels) - 1}")
        wanted["label"] = [labels[label]]
    answer = await _answer(engine, request, form.text, form.pair, wanted)
    before: dict[str, float] = {}
    if form.changed:
        methods: list[str] = []
        if not engine.has_probabilities:
            # For a regression, the value comes with an explanation.
            methods = list(form.method[:1])
        before = _by_label(await _answer(engine, request, form.before, form.before_pair, {"methods": methods}))
    return await engine.aside(request, _content, engine, form, answer, before)


def _content(engine: Engine, form: Form, answer: TextAnswer, before: Mapping[str, float]) -> dict[str, Any]:
    """Return the page's content for a text.

    Keys: heading; rows, each label's probability or value, now and before a change, with its share of the bar;
    left_out, number of labels that are not listed; link, the result's URL, empty if it is too long; json, the answer as
    a data URL; heatmaps; summaries, what the methods do; words that can be changed, each with its part of the form.
    """
    now = _by_label(answer)
    if engine.has_probabilities:
        heading = list(dict.fromkeys(attribution.predicted for attribution in answer.attributions))
        largest = 1.0
    else:
        heading = [f"{name}: {value:.4g}" for name, value in now.items()]
        largest = max(map(abs, now.values())) or 1.0
    listed = []
    for name in sorted(now, key=lambda name: -now[name])[:SHOWN_LABELS]:
        listed.append({"label": name, "now": now[name], "before": before.get(name), "share": abs(now[name]) / largest})
    sent = {"text": form.text, "pair": form.pair, "method": form.method, "label": form.label, "unit": form.unit}
    link = "?" + urlencode(sent, doseq=True)
    if len(link) > LINK_CHARS:
        link = ""
    document = {"text": form.text, "pair": form.pair} | result(answer.probabilities, answer.attributions)
    return {
        "link": link,
        "json": "data:application/json," + quote(json.dumps(document)),
        "heading": ", ".join(heading),
        "rows": listed,
        "left_out": len(now) - len(listed),
        # For each explained class, one attribution per method.
        "heatmaps": [Markup(rows(together)) for together in zip(*answer.by_method, strict=True)],
        "summaries": Markup(methods_html({name: engine.summaries[name] for name in form.method})),
        "words": _words(answer.attributions[0]),
    }


async def _answer(engine: Engine, request: Request, text: str, pair: str, wanted: dict[str, Any]) -> TextAnswer:
    body = {"texts": [text], **wanted}
    if pair.strip():
        body["pairs"] = [pair]
    (answer,) = await engine.answer(request, check(ExplainRequest, body, DataError))
    return answer


def _by_label(answer: TextAnswer) -> dict[str, float]:
    """Return each label's probability, or value for a regression."""
    if answer.probabilities is not None:
        return answer.probabilities
    return {attribution.target: attribution.value or 0.0 for attribution in answer.attributions}


def _words(attribution: Attribution) -> list[dict[str, Any]]:
    """Return each word with its span in its part of the form."""
    words = []
    for index, (start, end) in enumerate(attribution.spans):
        part = "text"
        if attribution.pair_start is not None and index >= attribution.pair_start:
            part = "pair"
        words.append({"text": attribution.words[index], "part": part, "start": start, "end": end})
    return words
