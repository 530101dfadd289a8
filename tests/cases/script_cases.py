"""Texts in scripts with and without spaces, and tiny classifiers that read them by three kinds of tokenizers."""

import functools
from typing import Any

import tiny
import tokenizers
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

import explearn
from explearn import ComputeOptions

TEXTS = {
    "Chinese": ("这部电影非常好看，我很喜欢。", "这|部|电影|非常|好看|，|我|很喜欢|。"),
    "Japanese": ("この映画は面白い。", "この|映画|は|面白い|。"),
    "Thai": ("ภาษาไทย สวยมาก", "ภาษา|ไทย| สวย|มาก"),
    "Khmer": ("ខ្ញុំស្រឡាញ់ភាសាខ្មែរ", "ខ្ញុំ|ស្រឡាញ់|ភាសាខ្មែរ"),
    "Lao": ("ຂ້ອຍຮັກພາສາລາວ", "ຂ້ອຍ|ຮັກ|ພາສາ|ລາວ"),
    "Burmese": ("မြန်မာစကား", "မြန်မာ|စကား"),
    "Arabic": ("هذا الفيلم رائع، أحببته!", "هذا| الفيلم| رائع،| أحببته!"),
    "Hindi": ("यह फ़िल्म बहुत अच्छी है।", "यह| फ़िल्म| बहुत| अच्छी| है।"),
    "Korean": ("이 영화는 정말 재미있다！", "이| 영화는| 정말| 재미있다！"),
    "emoji": ("👨‍👩‍👧 👍🏽 good😀!", "👨‍👩‍👧| 👍🏽| good😀!"),
    "mixed": ("iPhone手机 很好 http://a.b/中文，ok", "iPhone|手机| 很好| http://a.b/|中文|，|ok"),
}
"""By script a text and its words, a bar before each but the first."""


@functools.cache
def classifier(kind):
    """A tiny BERT that reads WordPieces, byte-level BPE or SentencePiece's Unigram, learned from the texts above."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    texts = [text for text, _ in TEXTS.values()]
    trainer: Any
    if kind == "WordPiece":
        made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer()
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    elif kind == "byte-level BPE":
        made = tokenizers.Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    else:
        made = tokenizers.Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=300, special_tokens=special, unk_token="[UNK]", show_progress=False
        )
    made.train_from_iterator(texts, trainer)
    ends = [(token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]", "cls_token": "[CLS]"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=62, **names)
    return explearn.TransformerPredictor(
        tiny.model("bert", vocab_size=len(fast)), fast, ComputeOptions(device="cpu"), kind
    )


KINDS = ("WordPiece", "byte-level BPE", "Unigram")
