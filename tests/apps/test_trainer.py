"""The Trainer's callback: figures in its log, and the same training as without it."""

from itertools import product

import tiny
import torch
import transformers

TEXTS = [*tiny.TEXTS, "the fox is quick", "a lazy dog"]


def trainer_of(folder):
    torch.manual_seed(0)
    model = tiny.model("bert")
    tokenizer = tiny.tokenizer("bert")
    rows = [{**tokenizer(text), "labels": place % 2} for place, text in enumerate(TEXTS)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=4, eval_strategy="steps", eval_steps=2, report_to=[], use_cpu=True, seed=1,
        per_device_train_batch_size=2, save_strategy="no", disable_tqdm=True, learning_rate=1e-2,
    )  # fmt: skip
    return transformers.Trainer(model, arguments, train_dataset=rows, eval_dataset=rows, processing_class=tokenizer)


def test_figures_are_logged_and_the_training_is_the_same(tmp_path):
    # It loads the Trainer, which takes seconds that other tests do not need.
    from explearn_apps.trainer import METRICS, CompareCallback

    plain = trainer_of(tmp_path / "plain")
    plain.train()
    watched = trainer_of(tmp_path / "watched")
    watched.add_callback(CompareCallback(watched, TEXTS, ["attcat", "random"]))
    watched.train()
    logged = [row for row in watched.state.log_history if "eval_attcat_aopc_comprehensiveness" in row]
    assert [row["step"] for row in logged] == [2, 4]
    assert all(-1 <= row[f"eval_random_{name}"] <= 1 for row, name in product(logged, METRICS))
    for (name, one), other in zip(plain.model.named_parameters(), watched.model.parameters(), strict=True):
        assert other.requires_grad and torch.equal(one, other), name
