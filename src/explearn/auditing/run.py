"""A whole audit: what a classifier leans on over many texts, each claim tested by changing texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from explearn.auditing.audit_result import Audit
from explearn.auditing.claims import find_claims
from explearn.auditing.findings import FindingList
from explearn.auditing.reading import FEWEST, AuditOptions, Work, explain_texts, halves, read_subject
from explearn.auditing.tested import Tested, group_figures
from explearn.core.arguments import models_left_as_they_came, options_of
from explearn.core.errors import DataError
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.report.manifest import check_page
from explearn.text.scored import Vocabulary


@models_left_as_they_came
def audit(
    classifier: Any,
    texts: Any,
    labels: Sequence[str | int] | None = None,
    groups: str | Sequence[str] | None = None,
    method: str | Explainer | None = None,
    *,
    scores: str | Path | None = None,
    out: str | Path | None = None,
    options: AuditOptions | None = None,
) -> Audit:
    """Find what a classifier leans on over many texts: claims from attributions, each tested by changing texts.

    Words, phrases, pairs and their order, places, classes of words, punctuation, patterns and lengths that score high
    in one half of the texts are claims. In texts of the other half, each is taken out where it occurs, and put in where
    it does not. A claim is confirmed if the 95 % interval of the change of its class's probability lies above 0.01,
    Wilcoxon's test, corrected over all claims (Benjamini and Hochberg), does not hold the change for chance, and
    neither taking out nor putting in contradicts. The words that go with the prediction, without any explanation, are
    tested in the same way.

    Args:
        classifier: as for `explearn.explain`; it must have classes.
        texts: a .csv, .jsonl, .parquet or .txt file, a list of texts (or pairs of texts), or a table; at least 40.
        labels: the true labels of a list of texts; of a file or table, `options.columns.label` names their column.
        groups: the group of each text, or the column that names it.
        method: a method's name, or an explainer. None: as `explearn.explain`, or the job's.
        scores: folder of a finished `explearn job` on these texts, whose scores are read; none is computed.
        out: a page to write (`Audit.save`).
        options: further settings.

    Returns:
        The findings, with causes of errors if there are labels, and groups.

    Raises:
        DataError: too few texts, texts with one answer only, a group of one text, or texts that cannot be used.
        ParamsError: another argument cannot be used.
        ModelError: the classifier cannot be loaded, or a label is none of its classes.
        UnsupportedError: it is a regression, or the method cannot explain it.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     rude = [0.9 if "moron" in text else 0.2 for text in texts]
        ...     return [[1 - p, p] for p in rude]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> explearn.audit(classifier, texts).findings[0].element
        '‘moron’'
    """
    options = options_of(AuditOptions, options)
    if out is not None:
        check_page(Path(out))
    subject = read_subject(classifier, texts, labels, groups, method, options, job=scores)
    work = Work(options.work, subject.origin.request)
    searched, held_out = halves(subject.user_texts.examples, options.seed)
    with unread_words_known():
        read = explain_texts(subject, searched, work, options.show_progress)
    explained = [i for i in searched if read[i].shares is not None]
    if scores is not None and len(explained) < FEWEST / 2:
        raise DataError(
            f"{scores}: has scores of the answers to {len(explained)} of {len(searched)} searched texts; expected "
            "a job without --target"
        )
    vocabulary = Vocabulary.from_texts(read)
    claims = find_claims([read[i] for i in explained], vocabulary, subject.patterns)
    tested = Tested(subject, read, vocabulary, explained, held_out, claims)
    findings = list(zip(tested.run(work, options.show_progress), claims, strict=True))
    # Confirmed ones first, the largest effects first.
    findings.sort(key=lambda pair: (not pair[0].confirmed, -(pair[0].effect or 0.0), pair[0].target, pair[0].element))
    confirmed = [claim for finding, claim in findings if finding.confirmed]
    result = Audit(
        findings=FindingList(finding for finding, _ in findings),
        errors=tested.errors(confirmed),
        groups=group_figures(subject, read),
        differences=tested.differences(confirmed),
        texts=len(read),
        rates=subject.rates(read),
        accuracy=subject.accuracy(read),
        method=subject.method,
        unread=sum(text.unread for text in read),
        unexplained=len(searched) - len(explained),
        examples=tested.examples(confirmed),
        origin=subject.origin,
    )
    if out is None:
        return result
    return result.save(out)
