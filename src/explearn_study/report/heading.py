"""The report's title, and the line below it that says what was judged."""

from __future__ import annotations

from collections.abc import Sequence

from explearn.show.task_report import TaskReport
from explearn_study.params import Params

QUESTION = "Which explanations to use"
QUESTION_OF_ONE = "Which explanations of this classifier can be trusted?"
"""Of a comparison on one classifier, without an explainer under study."""


def heading(params: Params, tasks: Sequence[TaskReport]) -> tuple[str, str]:
    """The title, and a line on the run: profile and tasks, or the classifier, its texts and its accuracy."""
    if params.explainer is not None or len(tasks) != 1 or tasks[0].task not in params.classifiers:
        study = f", explainer under study: {params.explainer}" if params.explainer is not None else ""
        return QUESTION, f"Profile {params.profile}{study}; tasks: {', '.join(task.task for task in tasks)}."
    (task,) = tasks
    texts = max((int(row.get("texts") or 0) for row in task.methods.values()), default=0)
    accuracy = task.classifier.get("test", {}).get("accuracy")
    right = "accuracy not known" if accuracy is None else f"accuracy {accuracy:.3f}"
    methods = len(task.methods)
    # So a list of texts is called.
    named = "" if task.task == "texts" else f" ({task.task})"
    return (
        QUESTION_OF_ONE,
        f"Classifier {params.classifiers[task.task].name} ({', '.join(task.labels)}; {right}): {methods} "
        f"method{'s' if methods != 1 else ''} on {texts:,} text{'s' if texts != 1 else ''}{named}.",
    )
