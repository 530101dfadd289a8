"""Options of ExpNet, and of ExpNet as its paper has it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from explearn.core.settings import Fraction, LayerIndex, OpenFraction, PositiveInt, Rounds, Seeded, Units

Rate = Annotated[float, Field(ge=0, lt=1)]


class ExpNetParams(Seeded):
    protocol: Literal["universal", "few_shot", "in_domain"] = "universal"
    """Learn from a consensus of signals on the task's own texts, itself learned from the other tasks' marks; from that
    and a few marked texts of the task; or from all of the task's marks and nothing else."""
    marks: PositiveInt = 10
    """few_shot: marked texts of the task to learn from, drawn by seed. With as many as there are: in_domain."""
    pseudo_weight: Annotated[float, Field(gt=0)] = 60.0
    """few_shot: marked texts that the consensus weighs as much as: n marked texts have n / (n + pseudo_weight) of the
    weight in training."""
    marks_of_a_task: Annotated[float, Field(gt=0)] = 20.0
    """few_shot: marked texts of the task that weigh as much in the consensus's own training as a task whose classifier
    makes no mistake."""
    aim: Annotated[float, Field(ge=0, le=1)] = 0.0
    """universal and few_shot: what the consensus aims at, people's marks (0), the model, as removing words finds it
    (1), or both in this proportion. Above 0 it needs signals.removal_samples."""
    layers: Literal["all"] | Annotated[list[LayerIndex], Field(min_length=1)] = "all"
    """Layers whose attention is read, from 0, or from the end when negative."""
    attention: Literal["row_and_column", "row", "column"] = "row_and_column"
    """What is read of a head: what [CLS] attends to (row), what attends to [CLS] (column), or both."""
    select: PositiveInt | None = None
    """Most numbers read of a word (one for each layer, head, and row or column): those with the largest weights in a
    first training; a second one learns with them alone. null: all."""
    context: Annotated[int, Field(ge=0, le=5)] = 1
    """Words before and after a word whose inputs are read with its own."""
    reach: Annotated[int, Field(ge=0, le=5)] = 0
    """Words before and after a word whose hidden units are read with its own. Above 0 a step of training takes whole
    texts."""
    hidden: Units = 32
    """Units of a network's hidden layer."""
    networks: Annotated[int, Field(ge=1, le=20)] = 3
    """Networks that learn side by side; the logit is the mean of theirs."""
    input_dropout: Rate = 0.1
    """Share of the inputs that is dropped at random in training."""
    dropout: Rate = 0.2
    """Share of the hidden units that is dropped at random in training."""
    learning_rate: Annotated[float, Field(gt=0)] = 2e-3
    """Of AdamW, without a schedule."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Of AdamW."""
    epochs: Rounds = 60
    """Passes over the training words, at most."""
    steps: Rounds = 3000
    """Steps of training, at most: where there are many words, fewer passes, at least one."""
    batch_size: Units = 512
    """Words a step; where it takes whole texts, on average."""

    @model_validator(mode="after")
    def _a_consensus_to_aim(self) -> Self:
        if self.aim and self.protocol == "in_domain":
            raise ValueError(
                f"aim is {self.aim:g}, but in_domain learns from people's marks alone; expected 0, or the protocol "
                "universal or few_shot"
            )
        return self


class ExpNetPaperParams(Seeded):
    features: Literal["full", "task_to_token", "token_to_task", "hidden", "hidden_and_attention"] = "full"
    """Variant of ExpNet's Table 4."""
    hidden: Units = 16
    """Units of the hidden layer."""
    alpha: Fraction = 0.6
    """Focal loss: weight of evidence tokens; the others weigh 1 - alpha."""
    gamma: Annotated[float, Field(ge=0)] = 2.0
    """Focal loss: how much less tokens count that are already classified well."""
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    """Of Adam, without a schedule."""
    epochs: Rounds = 50
    """Passes over the training texts."""
    batch_size: Units = 32
    """Texts a step."""
    threshold: OpenFraction = 0.5
    """Score from which a word counts as evidence."""
    standardize: bool = False
    """Scale features to zero mean and unit variance over the training tokens. The paper feeds raw attention weights."""
    protocol: Literal["leave_one_task_out", "in_domain"] = "leave_one_task_out"
    """Learn from the other tasks' rationales, or from the task's own."""
