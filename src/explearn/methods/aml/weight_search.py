"""The search for the weights of AML's loss, by Optuna (AML, section 4): TPE over [0, 1] each, validation split."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from explearn.core.extras import check_installed
from explearn.methods.aml.loss import DivergedError, Weights

if TYPE_CHECKING:
    import optuna

STARTUP_TRIALS = 5
"""Random trials before TPE models anything, and trials before any is pruned."""


def search(
    objective: Callable[[Weights, Callable[[int, float], None]], float], trials: int, first: Weights, seed: int
) -> Weights:
    """Search for the best weights in some trials.

    Args:
        objective: trains with some weights and returns a number, larger being better. It calls its second argument with
            each epoch and the number after it; that call prunes a hopeless trial (below the median of earlier trials at
            that epoch). A DivergedError raised by it also ends the trial.
        trials: number of trials.
        first: weights of the first trial. A term whose weight is 0 there stays out of all trials.
        seed: seed of the search.

    Returns:
        The best weights of all completed trials.

    Raises:
        DivergedError: no trial was completed.
    """
    check_installed("optuna", extra="pipeline", what="the search for AML's weights")
    import optuna

    # An error that ends a trial ends the search and is raised there; a warning would add its traceback.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    searched = {name: weight for name, weight in first._asdict().items() if weight}
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=1),
    )
    study.enqueue_trial(searched)

    def run(trial: optuna.Trial) -> float:
        def report(epoch: int, value: float) -> None:
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned

        weights = {name: trial.suggest_float(name, 0.0, 1.0) for name in searched}
        try:
            return objective(first._replace(**weights), report)
        except DivergedError as error:
            raise optuna.TrialPruned from error

    study.optimize(run, n_trials=trials)
    if not any(trial.state.name == "COMPLETE" for trial in study.trials):
        raise DivergedError(
            f"pAML: none of {trials} trials was completed; a smaller learning_rate or head_learning_rate may help"
        )
    return first._replace(**study.best_params)
