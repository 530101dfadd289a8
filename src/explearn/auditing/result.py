"""The result of an audit, as an object that displays itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from explearn.auditing.findings import AuditFigures
from explearn.auditing.sentences import sentences
from explearn.core.escape import printable
from explearn.show.blocks import plain, several

if TYPE_CHECKING:
    from explearn.auditing.origin import Origin


@dataclass(frozen=True, slots=True, repr=False)
class Audit(AuditFigures):
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

    origin: Origin = field(repr=False)
    page: Path | None = None

    def __str__(self) -> str:
        confirmed = len(self.findings.confirmed)
        return f"{several(confirmed, 'confirmed finding')} of {len(self.findings)} on {several(self.texts, 'text')}"

    def __repr__(self) -> str:
        return f"Audit({self})"

    def sentences(self) -> list[str]:
        """Return the result in five plain sentences."""
        return [plain(sentence) for sentence in sentences(self)]

    def print(self) -> None:
        """Print the sentences."""
        for sentence in self.sentences():
            print(printable(sentence))

    def save(self, path: str | Path) -> Audit:
        """Write the page, and beside it its manifest and the findings as CSV and JSON.

        Args:
            path: the page; with page.html go page.json (the manifest, for `explearn verify`), page.findings.csv and
                page.findings.json.

        Returns:
            This audit, with the path of its page.

        Raises:
            ParamsError: a file of another kind would be replaced.
            DataError: a file cannot be written.
        """
        # Brings matplotlib, which the findings need not wait for.
        from explearn.auditing.origin import write_page
        from explearn.auditing.page import audit_blocks

        rows = [asdict(finding) for finding in self.findings]
        document = {
            "texts": self.texts,
            "method": self.method,
            "rates": dict(self.rates),
            "accuracy": self.accuracy,
            "errors": [asdict(cause) for cause in self.errors],
            "groups": [asdict(group) for group in self.groups],
            "differences": [asdict(difference) for difference in self.differences],
            "findings": rows,
        }
        return write_page(self, Path(path), audit_blocks, document, rows, " ".join(self.sentences()))
