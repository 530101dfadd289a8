"""The page: a form, and below it what the classifier says of a text and why. It works without a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pydantic import ValidationError
from starlette.responses import HTMLResponse, Response

from explearn.core.display import STYLE, rows
from explearn.core.errors import ExplearnError
from explearn.core.records import Attribution
from explearn.core.settings import whole_number
from explearn.core.visible import visible
from explearn_apps.serve.refusals import RefusedError
from explearn_apps.serve.schemas import ExplainRequest
from explearn_apps.serve.service import Service, problem_sentence, service_of, summary_of

SHOWN_LABELS = 8
"""Most probable labels that are listed."""

FIELDS = ("text", "pair", "before", "before_pair", "label", "method")


@dataclass(frozen=True, slots=True)
class Asked:
    """The form as it was sent.

    label: number of the class, empty for the predicted one. before: the text that was explained last, with its second
    segment.
    """

    text: str = ""
    pair: str = ""
    methods: tuple[str, ...] = ()
    label: str = ""
    before: str = ""
    before_pair: str = ""

    @property
    def changed(self) -> bool:
        """Whether another text was explained before."""
        return bool(self.before.strip()) and (self.before, self.before_pair) != (self.text, self.pair)


@dataclass(frozen=True, slots=True)
class Row:
    """What the classifier gives a label, now and before the change; `share`: of the bar, 0 to 1."""

    label: str
    now: float
    before: float | None
    share: float

    @property
    def change(self) -> float:
        return 0.0 if self.before is None else self.now - self.before


@dataclass(frozen=True, slots=True)
class Word:
    """A word that can be changed: `part` of the form, and its [start, end) there."""

    text: str
    part: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page says of a text."""

    heading: str
    rows: list[Row] = field(default_factory=list)
    left_out: int = 0
    heatmaps: list[Markup] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("explearn_apps.serve"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    # Of what is read, not of what is sent back: fields hold their text as it was.
    found.filters["plain"] = lambda text: visible(text, one_line=True)
    found.filters["breakable"] = lambda name: Markup("_<wbr>").join(
        Markup.escape(visible(name, one_line=True)).split("_")
    )
    return found


@cache
def _asset(name: str) -> str:
    return resources.files("explearn_apps.serve").joinpath("templates", name).read_text(encoding="utf-8")


def read_form(body: bytes) -> Asked:
    """The form's fields. Raises RefusedError for what no form of the page sends."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=100
        )
    except ValueError as error:
        raise RefusedError(400, "invalid", "the form cannot be read; expected fields in UTF-8, 100 at most") from error
    given: dict[str, list[str]] = {name: [] for name in FIELDS}
    for name, value in pairs:
        if name not in given:
            raise RefusedError(422, "invalid", f"the form has an unknown field; expected {', '.join(FIELDS)}")
        # Browsers send lines with CR and LF, and count characters without CR.
        given[name].append(value.replace("\r\n", "\n"))
    one = {name: values[0] if values else "" for name, values in given.items()}
    return Asked(one["text"], one["pair"], tuple(given["method"]), one["label"], one["before"], one["before_pair"])


def add_page(app: FastAPI) -> None:
    """Add the page and its files."""

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        service = service_of(request)
        return _page(service, Asked(methods=(next(iter(service.engine.explainers)),)), None, "", 200)

    @app.post("/", include_in_schema=False)
    async def explained(request: Request) -> Response:
        service, asked = service_of(request), Asked()
        try:
            asked = read_form(await request.body())
            return _page(service, asked, await _explain(service, request, asked), "", 200)
        except RefusedError as error:
            service.metrics.refused.labels(error.reason).inc()
            return _page(service, asked, None, error.sentence, error.status, error.headers)
        except ExplearnError as error:
            return _page(service, asked, None, str(error), 422)

    @app.get("/page.css", include_in_schema=False)
    async def css() -> Response:
        return Response(_asset("page.css") + STYLE, media_type="text/css")

    @app.get("/page.js", include_in_schema=False)
    async def script() -> Response:
        return Response(_asset("page.js"), media_type="text/javascript")


def _page(
    service: Service, asked: Asked, shown: Shown | None, error: str, status: int, headers: dict[str, str] | None = None
) -> Response:
    engine = service.engine
    methods = [(name, e.about.cost, summary_of(e)) for name, e in engine.explainers.items()]
    html = (
        _environment()
        .get_template("page.html.j2")
        .render(
            asked=asked,
            shown=shown,
            error=error,
            classifier=engine.name,
            labels=engine.classifier.labels,
            regression=not engine.has_probabilities,
            methods=methods,
            most=service.limits.text_chars,
        )
    )
    return HTMLResponse(html, status, headers)


def _request(asked: Asked, service: Service, before: bool = False) -> ExplainRequest:
    """The form as a request of the API. Raises RefusedError."""
    text, pair = (asked.before, asked.before_pair) if before else (asked.text, asked.pair)
    try:
        wanted = ExplainRequest(
            texts=[text],
            pairs=[pair] if pair.strip() else None,
            methods=list(asked.methods),
            label=[_label(asked.label, service)] if asked.label else None,
        )
    except ValidationError as error:
        raise RefusedError(422, "invalid", problem_sentence(error.errors()[0])) from error
    wanted.check(service.limits)
    if not wanted.methods:
        raise RefusedError(422, "invalid", "methods: got none; expected at least one")
    return wanted


def _label(number: str, service: Service) -> str:
    """The name of a class from its number, as names may hold what no page shows."""
    labels = service.engine.classifier.labels
    place = whole_number(number, len(labels) - 1)
    if place is None:
        raise RefusedError(422, "invalid", f"label: expected a number from 0 to {len(labels) - 1}")
    return labels[place]


async def _explain(service: Service, request: Request, asked: Asked) -> Shown:
    wanted = _request(asked, service)
    assert wanted.methods is not None
    found, given = await service.explain(request, wanted.segments, wanted.methods, wanted.label or [], True)
    of_text = [method[0] for method in found]
    now = _answers(of_text, given)
    before = await _before(service, request, asked) if asked.changed else {}
    listed = sorted(now, key=lambda label: -now[label])[:SHOWN_LABELS]
    largest = max(map(abs, now.values()), default=1.0) if not service.engine.has_probabilities else 1.0
    first = of_text[0][0]
    return Shown(
        heading=_heading(of_text, now, service),
        rows=[Row(label, now[label], before.get(label), abs(now[label]) / (largest or 1.0)) for label in listed],
        left_out=len(now) - len(listed),
        # One row of methods for each class that is explained.
        heatmaps=[Markup(rows(together)) for together in zip(*of_text, strict=True)],
        words=[
            Word(word, "pair" if first.pair_start is not None and index >= first.pair_start else "text", *span)
            for index, (word, span) in enumerate(zip(first.words, first.spans, strict=False))
        ],
    )


async def _before(service: Service, request: Request, asked: Asked) -> dict[str, float]:
    """What the classifier gave the text before it was changed."""
    wanted = _request(asked, service, before=True)
    # Of a regression, its value comes with an explanation.
    methods = [] if service.engine.has_probabilities else list(wanted.methods or ())[:1]
    found, given = await service.explain(request, wanted.segments, methods, [], True)
    return _answers([method[0] for method in found], given)


def _answers(found: Sequence[Sequence[Attribution]], given: Sequence[dict[str, float]] | None) -> dict[str, float]:
    """What the classifier gives each label: a probability, or a value."""
    if given is not None:
        return given[0]
    return {a.target: a.value for of_text in found for a in of_text if a.value is not None}


def _heading(found: Sequence[Sequence[Attribution]], now: dict[str, float], service: Service) -> str:
    if not service.engine.has_probabilities:
        return ", ".join(f"{label}: {value:.4g}" for label, value in now.items())
    predicted = dict.fromkeys(a.predicted for of_text in found for a in of_text)
    return ", ".join(predicted)
