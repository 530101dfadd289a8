"""The result of an audit, as an object that displays itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from explearn.auditing.findings import AuditFigures, Finding
from explearn.auditing.origin import Origin, Result
from explearn.auditing.sentences import sentences
from explearn.show.blocks import Block, several


@dataclass(frozen=True, slots=True, repr=False)
class Audit(AuditFigures, Result):
    """What a classifier leans on over many texts; `AuditFigures` has the figures.

    Attributes:
        origin: from what it was made.
        page: path of the page; None if none was written.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     return [[0.1, 0.9] if "moron" in text else [0.8, 0.2] for text in texts]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> audit = explearn.audit(classifier, texts)
        >>> audit.findings.confirmed[0].target
        'rude'
    """

    row = Finding
    origin: Origin = field(repr=False)
    page: Path | None = None

    def __str__(self) -> str:
        confirmed = len(self.findings.confirmed)
        return f"{several(confirmed, 'confirmed finding')} of {len(self.findings)} on {several(self.texts, 'text')}"

    def _sentences(self) -> Sequence[str]:
        return sentences(self)

    def _blocks(self, made: Mapping[str, str]) -> Sequence[Block]:
        from explearn.auditing.page import audit_blocks

        return audit_blocks(self, made)
