"""What capturing attention costs beside the plain forward pass, on models with random weights of a medium size.

    python benchmarks/capture_architectures.py deberta-v2 modernbert

Prints, for each model type, the median over rounds of CPU time with capture by CPU time without, on one thread: `last`
for the row and column of the last layer, `all` for those of all layers, `means` for head means of all layers.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

from explearn.lens.attention import Attention, capture_attention

TEXTS, TOKENS, ROUNDS = 2, 128, 7
WIDTH, LAYERS, HEADS, FEEDFORWARD, VOCABULARY = 512, 6, 8, 1536, 2000
OWN: dict[str, dict[str, Any]] = {
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 256,
        "pos_att_type": ["p2c", "c2p"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
    "modernbert": {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3},
    "gpt2": {"bos_token_id": 2, "eos_token_id": 3},
    **{kind: {"num_key_value_heads": HEADS // 2} for kind in ("llama", "mistral", "qwen2", "gemma")},
}


def make(kind: str) -> Any:
    config = transformers.AutoConfig.for_model(
        kind,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=FEEDFORWARD,
        vocab_size=VOCABULARY,
        pad_token_id=1,
        **OWN.get(kind, {}),
    )
    loader: Any = transformers.AutoModelForSequenceClassification
    return loader.from_config(config).eval().requires_grad_(False)


def measure(kind: str) -> str:
    torch.manual_seed(0)
    model = make(kind)
    ids = torch.randint(5, VOCABULARY, (TEXTS, TOKENS))
    ids[0, -8:] = 1
    inputs = {"input_ids": ids, "attention_mask": (ids != 1).long()}

    def plain() -> None:
        with torch.inference_mode():
            model(**inputs)

    def captured(reduce: Any, layers: list[int] | None) -> Callable[[], None]:
        def run() -> None:
            with torch.inference_mode(), capture_attention(model, reduce, layers):
                model(**inputs)

        return run

    runs = {
        "plain": plain,
        "last": captured(Attention.row_and_column, [LAYERS - 1]),
        "all": captured(Attention.row_and_column, None),
        "means": captured(Attention.head_mean, None),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    ratios = {
        name: statistics.median(a / b for a, b in zip(times[name], times["plain"], strict=True))
        for name in runs
        if name != "plain"
    }
    told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    return f"{kind}: plain {1000 * statistics.median(times['plain']):.0f} ms, {told}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    for kind in sys.argv[1:]:
        print(measure(kind), flush=True)
