"""How fast gradient, attention and relevance methods are, against captum alone and against the model's own passes.

    python benchmarks/white_box_speed.py [--classifier FOLDER] [--texts 64] [--runs 5] [--data FILE.jsonl]

* integrated_gradients against captum's LayerIntegratedGradients, same model, steps and baseline, fp32, same scores:
  "as documented", one call a text; "batched by hand", padded batches of 64 texts in the order given, captum's
  internal_batch_size at what fits the same token budget.
* raw_attention and rollout against the eager forward pass that gives the attention away.
* grad_cam, gae and attcat against one forward and one backward pass down to the embeddings.

Both sides start from encoded texts in batches of the same budget. Ratios are medians of paired runs. Exits with 1 where
one misses its limit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from captum.attr import LayerIntegratedGradients

from _timing import CORPUS, load_classifier, load_texts, paired
from explearn.methods.base.registry import get_explainer
from explearn.model.batching import budget_batches
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding

AT_LEAST = {"as documented": 3.0, "batched by hand": 1.3}
PRECISION_GAIN = 1.5
"""integrated_gradients with precision auto: half as fast again as in fp32."""
AT_MOST = {"raw_attention": 1.3, "rollout": 1.3, "grad_cam": 1.5, "gae": 1.5, "attcat": 1.5}

STEPS = 50


def captum_scores(classifier: Classifier, batch: Batch, rows: int) -> torch.Tensor:
    """What captum's documentation shows for a text classifier: the embedding layer, a baseline of padding."""

    def target_logit(input_ids: torch.Tensor, attention_mask: torch.Tensor, *types: torch.Tensor) -> torch.Tensor:
        names = {"token_type_ids": types[0]} if types else {}
        return classifier.model(input_ids=input_ids, attention_mask=attention_mask, **names).logits

    special = torch.zeros_like(batch.input_ids, dtype=torch.bool)
    for row, encoding in enumerate(batch.encodings):
        special[row, : len(encoding)] = torch.tensor(encoding.special)
    padding = torch.full_like(batch.input_ids, int(classifier.tokenizer.pad_token_id))
    extra = [batch.attention_mask] + ([] if batch.token_type_ids is None else [batch.token_type_ids])
    with torch.inference_mode():
        targets = target_logit(batch.input_ids, *extra).argmax(-1)
    method = LayerIntegratedGradients(target_logit, classifier.model.get_input_embeddings())
    found = method.attribute(
        batch.input_ids,
        baselines=torch.where(special, batch.input_ids, padding),
        target=targets.clone(),
        additional_forward_args=tuple(extra),
        n_steps=STEPS,
        internal_batch_size=rows,
    )
    return found.sum(-1).detach()


def integrated_gradients(classifier: Classifier, texts: list[str], encodings: list[Encoding], runs: int) -> bool:
    ours = get_explainer("integrated_gradients", steps=STEPS)
    longest = max(map(len, encodings))

    def explain() -> list[torch.Tensor]:
        return [torch.tensor(a.token_scores) for a in ours.explain(classifier, texts)]

    def one_by_one() -> list[torch.Tensor]:
        found = []
        for text in texts:
            (encoding,) = classifier.encode([text])
            found.append(captum_scores(classifier, classifier.batch([encoding]), STEPS)[0][encoding.positions])
        return found

    def by_hand() -> list[torch.Tensor]:
        found = []
        for start in range(0, len(texts), 64):
            part = classifier.encode(texts[start : start + 64])
            scores = captum_scores(classifier, classifier.batch(part), max(64, classifier.max_tokens // longest))
            found += [row[encoding.positions] for row, encoding in zip(scores, part, strict=True)]
        return found

    passed = True
    for name, peer in (("as documented", one_by_one), ("batched by hand", by_hand)):
        gap = max(float((a - b).abs().max()) for a, b in zip(explain(), peer(), strict=True))
        ratio = paired(peer, explain, runs)
        passed &= ratio.median >= AT_LEAST[name]
        print(f"integrated_gradients, captum {name}: {ratio}, asked {AT_LEAST[name]}; largest gap {gap:.1e}")
    return passed


def reduced_precision(folder: Path | None, device: str, texts: list[str], runs: int) -> bool:
    method = get_explainer("integrated_gradients", steps=STEPS)
    full, auto = load_classifier(folder, device), load_classifier(folder, device, "auto")
    if auto.dtype is torch.float32:
        print("integrated_gradients, precision auto: this device has no faster precision than fp32")
        return True
    list(method.explain(auto, texts[:4]))
    ratio = paired(lambda: list(method.explain(full, texts)), lambda: list(method.explain(auto, texts)), runs)
    print(f"integrated_gradients, {auto.dtype} against fp32: {ratio}, asked {PRECISION_GAIN}")
    return ratio.median >= PRECISION_GAIN


def own_passes(classifier: Classifier, encodings: list[Encoding], runs: int) -> bool:
    """Methods of one or two passes against those passes."""
    batches = [
        classifier.batch([encodings[i] for i in indices])
        for indices in budget_batches([len(e) for e in encodings], classifier.max_tokens)
    ]
    model = classifier.model

    def eager_forward() -> None:
        before = model.config._attn_implementation
        model.set_attn_implementation("eager")
        try:
            with torch.inference_mode():
                for batch in batches:
                    model(**batch.model_inputs(), output_attentions=True)
        finally:
            model.set_attn_implementation(before)

    def forward_and_backward() -> None:
        embeddings = model.get_input_embeddings()
        for batch in batches:
            inputs = batch.model_inputs()
            inputs.pop("input_ids")
            vectors = embeddings(batch.input_ids).requires_grad_()
            logits = model(inputs_embeds=vectors, **inputs).logits
            torch.autograd.grad(logits.max(-1).values.sum(), vectors)

    passed = True
    for name, limit in AT_MOST.items():
        method = get_explainer(name)
        plain: Callable[[], None] = eager_forward if name in ("raw_attention", "rollout") else forward_and_backward

        def explain(method: object = method) -> None:
            for batch in batches:
                method.score_batch(classifier, batch, None)  # type: ignore[attr-defined]

        explain(), plain()
        ratio = paired(explain, plain, runs)
        passed &= ratio.median <= limit
        what = "the eager forward pass" if plain is eager_forward else "one forward and backward pass"
        print(f"{name}, against {what}: {ratio}, at most {limit}")
    return passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", type=Path, default=CORPUS, help="JSON Lines with a field text or words")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    classifier = load_classifier(options.classifier, options.device)
    texts = load_texts(options.data, options.texts)
    encodings = classifier.encode(texts)
    mean = sum(map(len, encodings)) / len(encodings)
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, {classifier.device}, "
        f"{torch.get_num_threads()} threads, {len(texts)} texts of {mean:.0f} sub-tokens, {options.runs} paired runs"
    )
    passed = own_passes(classifier, encodings, 3 * options.runs)
    passed &= integrated_gradients(classifier, texts, encodings, options.runs)
    passed &= reduced_precision(options.classifier, options.device, texts, options.runs)
    sys.exit(not passed)


if __name__ == "__main__":
    main()
