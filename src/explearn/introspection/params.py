"""Parameters of the attention features."""

from __future__ import annotations

from explearn.core.settings import Section


class AttendParams(Section):
    layer: int = -1
    """Encoder layer whose attention is taken, counted from 0, or from the end when negative."""
    hidden_states: bool = False
    """Also store the last layer's hidden states, for ExpNet's ablations (Table 4)."""
