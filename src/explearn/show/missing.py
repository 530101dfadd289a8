"""What a report cannot say, because the texts brought too little or because the run left it out."""

from __future__ import annotations

from collections.abc import Sequence

from explearn.show.markdown import escape_markdown
from explearn.show.task_report import TaskReport
from explearn_study.params import Params


def has_no_marks(task: TaskReport) -> bool:
    """Whether nobody marked a word in any text of a task."""
    texts = task.agreement.get("texts")
    return texts is not None and not any(texts.values())


def missing(params: Params, tasks: Sequence[TaskReport]) -> list[str]:
    """Sentences on what is missing, and the remarks of whoever made the run."""
    found = []
    unmarked = [escape_markdown(task.task) for task in tasks if has_no_marks(task)]
    if unmarked:
        found.append(
            f"**No marked words:** {', '.join(unmarked)}. Nothing here says whether the explanations agree with "
            "people: F1, AUROC and their like need texts in which somebody marked the evidence."
        )
    unlabelled = [escape_markdown(task.task) for task in tasks if task.methods and not task.classifier]
    if unlabelled:
        found.append(
            f"**No labels:** {', '.join(unlabelled)}. The classifier's accuracy is not known. An explanation can be "
            "faithful to a classifier that is wrong."
        )
    return [*found, *(escape_markdown(remark) for remark in params.report.remarks)]
