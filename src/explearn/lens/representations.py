"""The hidden states of a model, for sub-tokens and for whole texts, and its embeddings of single words.

A function of texts has no hidden states; `read_states` then returns features of each word's letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from explearn.core.arrays import Array, Array32
from explearn.core.compute import at_least_float32
from explearn.core.errors import ParamsError, UnsupportedError
from explearn.lens.words import table_weight
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Batch, Encoding
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.text.alignment import NO_WORD

if TYPE_CHECKING:
    from explearn.predictors.transformer import TransformerPredictor

PIECES = 2048
"""Number of features that a word's pieces are hashed to."""


@torch.inference_mode()
def aggregate_states(classifier: Predictor, encodings: Sequence[Encoding], description: str | None = None) -> Array:
    """Return hidden states averaged over all layers' outputs and all sub-tokens, special ones included, (n, d).

    The embeddings are not a layer's output; padding does not count (IvRA 2.2.3, Atanasova et al. 2020).

    Args:
        classifier: the classifier.
        encodings: the texts.
        description: title of a progress bar. None: there is no bar.

    Raises:
        UnsupportedError: the model does not return its hidden states.
    """

    def average(indices: list[int]) -> Array:
        batch = classifier.batch([encodings[i] for i in indices])
        _, parts = _run(transformer_of(classifier), batch)
        real = batch.attention_mask[..., None].double()
        layers = list(chain.from_iterable(part[1:] for part in parts))
        total: Any = sum(states.double() for states in layers)
        means = (total * real).sum(1) / (len(layers) * real.sum(1))
        return np.asarray(means.cpu())

    rows = run_batches([len(e) for e in encodings], classifier, average, description=description)
    if not rows:
        return np.zeros((0, int(getattr(transformer_of(classifier).model.config, "hidden_size", 0) or 0)))
    return np.array(rows)


def spaced_layers(classifier: Predictor, count: int) -> list[int]:
    """Choose at most `count` of a model's layers, evenly spaced from the embeddings (0) to the last layer.

    The layers of an encoder-decoder are those of its encoder, then those of its decoder. A function of texts has none.

    Raises:
        UnsupportedError: as `read_states`.
    """
    transformer = classifier.transformer
    if transformer is None:
        return []
    _, parts = _run(transformer, transformer.batch(transformer.read_samples("a")))
    total = sum(len(part) for part in parts)
    return sorted({round(layer) for layer in np.linspace(0, total - 1, count).tolist()})


@torch.no_grad()
def read_states(classifier: Predictor, batch: Batch, layers: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return logits, (b, C), and the hidden states of some layers side by side, (b, n, layers d), from one pass.

    Without layers, for a function of texts, each sub-token gets the hashed pieces of its word (`hashed_pieces`).

    Raises:
        UnsupportedError: the model does not return its hidden states.
        ParamsError: there is no such layer.
    """
    if not layers:
        return classifier.logits(batch), hashed_pieces(batch.encodings)
    logits, parts = _run(transformer_of(classifier), batch)
    states = list(chain.from_iterable(parts))
    if max(layers) >= len(states):
        raise ParamsError(f"layer {max(layers)} does not exist: the model has {len(states)} with its embeddings")
    return logits, torch.cat([states[layer].float() for layer in layers], -1)


def text_states(classifier: Predictor, encodings: Sequence[Encoding], layers: Sequence[int]) -> list[Tensor]:
    """Return what `read_states` reads of each text, (tokens, layers d), on the CPU; float16 if that holds its values.

    Raises:
        UnsupportedError: as `read_states`.
    """

    def read(indices: list[int]) -> Iterator[Tensor]:
        _, states = read_states(classifier, classifier.batch([encodings[i] for i in indices]), layers)
        for row, index in enumerate(indices):
            text = states[row, : len(encodings[index])].cpu()
            # Some decoders have activations beyond 65,504.
            yield text.half() if text.abs().max() < torch.finfo(torch.float16).max else text.clone()

    return run_batches([len(e) for e in encodings], classifier, read)


def _run(classifier: TransformerPredictor, batch: Batch) -> tuple[Tensor, list[list[Tensor]]]:
    """Return logits, and the embeddings and each layer's output, (b, n, d) each; for an encoder-decoder, of both."""
    with classifier.gathered(), classifier.autocast():
        output: Any = classifier.model(**batch.model_inputs(), output_hidden_states=True)
    parts = []
    fits = True
    for name in ("encoder_hidden_states", "decoder_hidden_states", "hidden_states"):
        layers = [states.to(classifier.device) for states in getattr(output, name, None) or ()]
        if len(layers) > 1:
            parts.append(layers)
            fits = fits and all(states.shape[:2] == batch.attention_mask.shape for states in layers)
    if not parts or not fits:
        raise UnsupportedError(
            f"{classifier.name}: a {classifier.model.config.model_type!r} model gives no hidden states, one for each "
            "sub-token and layer; reader, stability by meaning and consistency need them"
        )
    return at_least_float32(output.logits), parts


def hashed_pieces(encodings: Sequence[Encoding]) -> Tensor:
    """Return hashed pieces of each sub-token's word, (b, n, PIECES), 0 for a sub-token of no word.

    The pieces of a word are the word itself and its character n-grams of three to five letters, with its ends marked,
    so that forms of one word have much in common (Bojanowski et al. 2017, section 3.2). A signed hash adds each piece
    to one of the features.
    """
    from sklearn.feature_extraction.text import HashingVectorizer  # takes a second to import

    numbers = {"": 0}
    rows = []
    for encoding in encodings:
        words = ["" if owner == NO_WORD else encoding.words[owner] for owner in encoding.word_ids]
        rows.append(torch.tensor([numbers.setdefault(word, len(numbers)) for word in words]))
    vectors = HashingVectorizer(analyzer=_pieces, n_features=PIECES, dtype=np.float32).transform(numbers).toarray()
    return torch.from_numpy(vectors)[pad_sequence(rows, batch_first=True)]


def _pieces(word: str) -> list[str]:
    if not word:
        return []
    marked = f"<{word.lower()}>"
    pieces = [marked]
    for size in (3, 4, 5):
        pieces += [marked[i : i + size] for i in range(len(marked) - size + 1)]
    return pieces


def word_embeddings(classifier: Predictor, encodings: Sequence[Encoding]) -> list[Array32]:
    """Return the mean input embedding of each word's sub-tokens, one array (words, d) per text.

    Rows of words without a sub-token are NaN.

    Raises:
        UnsupportedError: the model has no table of embeddings, or an offloaded one.
    """
    weight = table_weight(transformer_of(classifier).model)
    if weight.is_meta:
        raise UnsupportedError(f"{classifier.name}: its table of embeddings is offloaded; expected it on a device")
    table: Any = weight.detach().float().cpu().numpy()
    embeddings = []
    for encoding in encodings:
        owner = np.asarray(encoding.word_ids)
        real = owner != NO_WORD
        sums = np.zeros((len(encoding.words), table.shape[1]), dtype=np.float32)
        np.add.at(sums, owner[real], table[np.asarray(encoding.input_ids)[real]])
        counts = np.bincount(owner[real], minlength=len(encoding.words)).astype(np.float32)
        counts[counts == 0] = np.nan
        embeddings.append((sums / counts[:, None]).astype(np.float32))
    return embeddings
