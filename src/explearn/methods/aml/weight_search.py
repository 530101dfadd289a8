"""The search for the weights of AML's loss, by Optuna (AML, section 4): TPE over [0, 1] each, validation split.

Every trial is written to a database as it ends, so that an interrupted search can go on. A study is known by what it
searches: other data, another classifier or other options start another one in the same file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.core.extras import check_installed
from explearn.methods.aml.loss import DivergedError, Weights

if TYPE_CHECKING:
    import optuna

NAMES = ("prediction_weight", "size_weight", "inverse_weight")

STARTUP_TRIALS = 5
"""Random trials before TPE models anything, and trials before any is pruned."""


def search(
    objective: Callable[[Weights, Callable[[int, float], None]], float],
    trials: int,
    *,
    larger_is_better: bool,
    first: Weights,
    seed: int,
    file: Path,
    identity: Mapping[str, Any],
) -> tuple[Weights, list[dict[str, Any]]]:
    """Search for the best weights until the study holds `trials` trials, those of earlier runs counted.

    Args:
        objective: trains with some weights and returns the metric of interest. It calls its second argument with each
            epoch and the metric after it; that call ends it where the trial is hopeless (median of the earlier trials
            at that epoch). A DivergedError that it raises ends the trial, too.
        first: weights that the first trial takes. A term whose weight is 0 there stays out of all trials.
        file: the SQLite database of studies, made where there is none.
        identity: what the result depends on besides the weights; JSON values.

    Returns the best weights of all complete trials, and all trials: number, the weights by their parameters' names,
    state (complete, pruned, being hopeless or diverged, or failed) and metric, the best value over the epochs run (None
    where none was). Raises DivergedError where no trial came to its end.
    """
    check_installed("optuna", extra="pipeline", what="the search for AML's weights")
    import optuna

    # What ends a trial ends the search, and is told there: a warning would add its traceback.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    file.parent.mkdir(parents=True, exist_ok=True)
    searched = {name: weight for name, weight in zip(NAMES, first, strict=True) if weight}
    key = json.dumps({**identity, "searched": list(searched)}, sort_keys=True)
    study = optuna.create_study(
        study_name=hashlib.sha256(key.encode()).hexdigest()[:16],
        storage=f"sqlite:///{file.resolve()}",
        direction="maximize" if larger_is_better else "minimize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=1),
    )
    # A trial that a killed process left unfinished would count for ever.
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    done = [trial for trial in study.trials if trial.state.name in ("COMPLETE", "PRUNED")]
    if all(trial.state.name == "FAIL" for trial in study.trials):
        study.enqueue_trial(searched)

    def run(trial: optuna.Trial) -> float:
        weights = _weights({name: trial.suggest_float(name, 0.0, 1.0) for name in searched})

        def report(epoch: int, value: float) -> None:
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

        try:
            return objective(weights, report)
        except DivergedError as error:
            raise optuna.TrialPruned from error

    for number in range(len(done), trials):
        # A sampler of its own for every trial: what it draws does not depend on where a search was broken off.
        study.sampler = optuna.samplers.TPESampler(seed=seed + number, n_startup_trials=STARTUP_TRIALS)
        study.optimize(run, n_trials=1)
    if not any(trial.state.name == "COMPLETE" for trial in study.trials):
        raise DivergedError(
            f"{file}: none of {trials} trials came to its end; a smaller learning_rate or head_learning_rate may help"
        )
    best = max if larger_is_better else min
    record = []
    for trial in study.trials:
        state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(trial.state.name, "failed")
        values = trial.intermediate_values.values()
        metric = best(values) if state == "pruned" and values else trial.value
        weights = dict(zip(NAMES, _weights(trial.params), strict=True))
        if trial.params:
            record.append({"number": trial.number, **weights, "state": state, "metric": metric})
    return _weights(study.best_params), record


def _weights(by_name: Mapping[str, float]) -> Weights:
    return Weights(*(float(by_name.get(name, 0.0)) for name in NAMES))
