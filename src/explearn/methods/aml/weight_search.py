"""The search for the weights of AML's loss, by Optuna (AML, section 4): TPE over [0, 1] each, validation split.

The study is kept in a file to which every trial is added as it ends, so that an interrupted search can go on. A study
is found again by what it searches: other data, another classifier or other options start another one in the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.core.errors import DataError, first_line
from explearn.core.extras import check_installed
from explearn.methods.aml.loss import Weights
from explearn.methods.aml.training import DivergedError

if TYPE_CHECKING:
    import optuna

NAMES = ("prediction_weight", "size_weight", "inverse_weight")
RECORD = b'{"op_code":'
"""How every line of a journal begins."""

STARTUP_TRIALS = 5
"""Random trials before TPE models anything, and trials before any is pruned."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting of the weights.

    state: complete, pruned (hopeless or diverged) or failed. metric: best value of the metric of interest on the
    validation texts, over the epochs run; None where none was. by_epoch: its value after each epoch.
    """

    number: int
    prediction_weight: float
    size_weight: float
    inverse_weight: float
    state: str
    metric: float | None
    by_epoch: tuple[float, ...]


def search(
    objective: Callable[[Weights, Callable[[int, float], None]], float],
    trials: int,
    *,
    larger_is_better: bool,
    first: Weights,
    seed: int,
    file: Path,
    identity: Mapping[str, Any],
) -> tuple[Weights, list[Trial]]:
    """Search for the best weights until the study holds `trials` trials, those of earlier runs counted.

    Args:
        objective: trains with some weights and returns the metric of interest. It calls its second argument with each
            epoch and the metric after it; that call ends it where the trial is hopeless (median of the earlier trials
            at that epoch). A DivergedError that it raises ends the trial, too.
        first: weights that the first trial takes. A term whose weight is 0 there stays out of all trials.
        file: the study's journal, made where there is none.
        identity: what the result depends on besides the weights; JSON values.

    Returns the best weights of all complete trials, and all trials. Raises DataError for a damaged journal,
    DivergedError where no trial came to its end.
    """
    check_installed("optuna", extra="pipeline", what="the search for AML's weights")
    import optuna
    from optuna.storages.journal import JournalFileBackend

    # What ends a trial ends the search, and is told there: a warning would add its traceback.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    file.parent.mkdir(parents=True, exist_ok=True)
    _drop_unfinished_line(file)
    given = asdict_weights(first)
    searched = {term: weight for term, weight in given.items() if weight}
    parts = dict(identity) if len(searched) == len(NAMES) else {**identity, "searched": list(searched)}
    name = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
    try:
        study = optuna.create_study(
            study_name=name,
            storage=optuna.storages.JournalStorage(JournalFileBackend(str(file))),
            direction="maximize" if larger_is_better else "minimize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=1),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _no_journal(file, first_line(error)) from error
    # A trial that a killed process left unfinished would count for ever.
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    begun = [trial for trial in study.trials if trial.state.name != "FAIL"]
    if not begun:
        study.enqueue_trial(searched)

    diverged: list[DivergedError] = []

    def run(trial: optuna.Trial) -> float:
        drawn = {term: trial.suggest_float(term, 0.0, 1.0) if term in searched else 0.0 for term in NAMES}

        def report(epoch: int, value: float) -> None:
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            return objective(_weights(drawn), report)
        except DivergedError as error:
            diverged.append(error)
            raise optuna.TrialPruned from error

    done = [trial for trial in study.trials if trial.state.is_finished() and trial.state.name != "FAIL"]
    for number in range(len(done), trials):
        # A sampler of its own for every trial: what it draws does not depend on where a search was broken off.
        study.sampler = optuna.samplers.TPESampler(seed=seed + number, n_startup_trials=STARTUP_TRIALS)
        study.optimize(run, n_trials=1)
    if not any(trial.state.name == "COMPLETE" for trial in study.trials):
        why = f" (the last: {first_line(diverged[-1])})" if diverged else ""
        raise DivergedError(
            f"{file}: none of {trials} trials came to its end{why}; a smaller learning_rate or head_learning_rate may "
            "help"
        )
    return _weights(study.best_params), [_trial(trial, larger_is_better) for trial in study.trials if trial.params]


def asdict_weights(weights: Weights) -> dict[str, float]:
    """The weights under the names of the parameters."""
    return dict(zip(NAMES, asdict(weights).values(), strict=True))


def _weights(by_name: Mapping[str, float]) -> Weights:
    return Weights(*(float(by_name.get(name, 0.0)) for name in NAMES))


def _drop_unfinished_line(file: Path) -> None:
    """Cut off what a process that was killed while it wrote left of a line: the trial it speaks of was not done.

    Raises DataError where a file's last line was not left by that: it stays as it is.
    """
    if not file.exists() or (content := file.read_bytes()).endswith(b"\n"):
        return
    end = content.rfind(b"\n") + 1
    unfinished = content[end : end + len(RECORD)]
    if not (content.startswith(RECORD[: len(content)]) and RECORD.startswith(unfinished)):
        raise _no_journal(file, "its last line does not end")
    with file.open("r+b") as journal:
        journal.truncate(end)


def _no_journal(file: Path, why: str) -> DataError:
    return DataError(
        f"{file}: not a journal of trials ({why}); expected a JSON object a line as Optuna writes. "
        "Move it away to start the search anew"
    )


def _trial(trial: optuna.trial.FrozenTrial, larger_is_better: bool) -> Trial:
    state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
    by_epoch = tuple(trial.intermediate_values[step] for step in sorted(trial.intermediate_values))
    value = trial.value
    if state == "pruned" and by_epoch:
        value = max(by_epoch) if larger_is_better else min(by_epoch)
    return Trial(
        number=trial.number,
        **asdict_weights(_weights(trial.params)),
        state=state,
        metric=value,
        by_epoch=by_epoch,
    )
