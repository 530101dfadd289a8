"""A learned explainer that holds some tensors, for tests of its folder."""

from explearn import About, BatchExplainer
from explearn.methods.base.learned import LearnedExplainer, TrainedState


class Kept(LearnedExplainer, BatchExplainer):
    """It keeps what it is given."""

    about = About(name="kept", family="learned", cost="nothing")
    weights_file = "w.safetensors"
    state: TrainedState

    def learn(self, task, *, description=None):
        return self

    def score_batch(self, classifier, batch, targets):
        raise NotImplementedError

    def _state(self):
        return self.state

    def _restore(self, state):
        self.state = state


def keep(folder, tensors, **record):
    """Save tensors as a trained explainer's."""
    kept = Kept()
    kept.state = TrainedState(tensors, record)
    kept.save_pretrained(folder)
