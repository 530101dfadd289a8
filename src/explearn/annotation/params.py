"""Parameters of rationales by people and by language models."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from explearn.core.records import Split
from explearn.core.settings import Fraction, PositiveInt, Section
from explearn.data.params import RationaleFile


class LLMParams(Section):
    """Rationales by a language model (ExpNet, appendix A). The server and its key come from the environment."""

    model: str | None = None
    """Name of the model on the server; default: the environment's EXPLEARN_LLM_MODEL, which DVC does not see."""
    prompt: str = "evidence"
    """A shipped prompt (`explearn annotate prompts` lists them; without a number: the highest), or a YAML file."""
    about: str | None = None
    """What the texts are, for the prompt (default: the shipped sentence, for tasks that the project knows)."""
    meanings: dict[str, str] = Field(default_factory=dict)
    """Label -> what it means, for the prompt."""
    shots: Annotated[int, Field(ge=0, le=64)] = 4
    """Most marked examples in the prompt, even over labels, from data/annotations/TASK/seeds.jsonl."""
    splits: Annotated[list[Split], Field(min_length=1)] = ["train"]
    """Splits whose texts are annotated; those that people have marked are left out."""
    labels: list[str] | None = None
    """Annotate texts of these labels only (default: all)."""
    max_texts: PositiveInt | None = None
    """Most texts a split, drawn by seed in the labels' own proportions."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    max_tokens: Annotated[int, Field(ge=16)] = 600
    """Longest answer, in tokens."""
    fuzzy_threshold: Annotated[float, Field(ge=50, le=100)] = 90.0
    """Least likeness (0 to 100) at which a misspelt quote counts as words of the text; 100: never."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """A rationale of more than this share of a text's words is too diffuse and is dropped."""
    max_hallucinated: Fraction = 0.5
    """An answer of whose words more than this share is not in the text is dropped."""


class RationaleParams(Section):
    files: list[RationaleFile] = Field(default_factory=list)
    llm: LLMParams | None = None
    """Have a language model mark the texts that nobody has marked."""
    train_split: Split = "train"
    """Split whose rationales train the explainers and give K."""
