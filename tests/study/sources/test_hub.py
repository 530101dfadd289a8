"""Data sets of the hub, from a local stand-in."""

import json
from collections import Counter

import pytest
from source_cases import complaint, counts, load, write


def hub_text(column, labels, **more):
    return [{column: f"text number {n}", "label": n % labels, **more} for n in range(12)]


def hub_posts():
    """Twelve posts: four normal, four offensive with two masks, four on which all annotators differ."""
    kinds = (([1, 1, 1], []), ([2, 2, 1], [[0, 1], [1, 1]]), ([0, 1, 2], []))
    posts = []
    for n in range(12):
        votes, masks = kinds[n % 3]
        annotators = {"label": votes, "annotator_id": [4, 5, 6]}
        words = ["rude", f"turnip{n}"]
        posts.append({"id": f"post-{n}", "annotators": annotators, "rationales": masks, "post_tokens": words})
    return posts


def hub_questions():
    """Twelve questions; the answer is the passage's last word."""
    return [
        {
            "id": f"q-{n}",
            "question": f"which turnip is number {n} ?",
            "context": f"it is turnip{n}",
            "answers": {"text": [f"turnip{n}"], "answer_start": [6]},
        }
        for n in range(12)
    ]


HUB = {
    # adapter: rows of one split, the hub's splits
    "sst2": (hub_text("sentence", 2), ("train", "validation")),
    "cola": (hub_text("sentence", 2), ("train", "validation")),
    "hatexplain": (hub_posts(), ("train", "validation", "test")),
    "rotten_tomatoes": (hub_text("text", 2), ("train", "validation", "test")),
    "ag_news": (hub_text("text", 4), ("train", "test")),
    "imdb": (hub_text("text", 2), ("train", "test")),
    "emotion": (hub_text("text", 6), ("train", "validation", "test")),
    "squad": (hub_questions(), ("train", "validation")),
    "snli": (hub_text("premise", 3, hypothesis="it is so"), ("train", "validation", "test")),
    "movie_rationales": (hub_text("review", 2, evidences=["text number"]), ("train", "validation", "test")),
}


def stand_in(folder, adapter):
    """A folder in the hub's layout: a Parquet file for each split, with texts of its own."""
    content, splits = HUB[adapter]
    for number, split in enumerate(splits):
        own = [{**row, "id": f"{row['id']}-{number}"} if "id" in row else row for row in content]
        own = json.loads(json.dumps(own).replace("number", f"number{number}").replace("turnip", f"turnip{number}"))
        write(folder / f"{split}-00000-of-00001.parquet", own)


@pytest.mark.usefixtures("hub_cache")
class TestHub:
    @pytest.mark.parametrize("adapter", HUB)
    def test_every_adapter_reads_the_hub_s_layout(self, tmp_path, adapter):
        stand_in(tmp_path / "copy", adapter)
        data = load(tmp_path, "task", kind="hub", adapter=adapter, path="copy")
        assert {e.split for e in data.examples} == {"train", "validation", "test"}
        assert {e.label for e in data.examples} == ({"answer"} if adapter == "squad" else set(data.labels))
        assert len(data.examples) == 12 * len(HUB[adapter][1])
        assert all((e.focus is not None) == (adapter == "squad") for e in data.examples)
        marked = {"hatexplain": 4 * 2 * 3, "movie_rationales": 12 * 3}  # posts or reviews, masks, splits
        assert len(data.rationales) == marked.get(adapter, 0)

    def test_a_view_drops_posts_without_a_majority(self, tmp_path):
        stand_in(tmp_path / "copy", "hatexplain")
        data = load(tmp_path, "task", kind="hub", adapter="hatexplain", path="copy", view="three_class")
        assert data.dropped == {"no majority label": 12}
        assert Counter(e.label for e in data.examples) == {"normal": 12, "offensive": 12}
        assert data.labels == ["hatespeech", "normal", "offensive"]

    def test_a_slice_of_a_split(self, tmp_path):
        stand_in(tmp_path / "copy", "sst2")
        splits = {"train": "train[:10]", "test": "validation[:4]"}
        data = load(tmp_path, "task", kind="hub", path="copy", splits=splits)
        assert counts(data) == {"train": 9, "validation": 1, "test": 4}

    def test_a_data_set_that_cannot_be_reached(self, tmp_path):
        message = complaint(tmp_path, kind="hub", adapter="imdb")
        assert message.startswith("hub data set 'stanfordnlp/imdb': cannot be loaded (")

    def test_a_split_that_is_not_there(self, tmp_path):
        stand_in(tmp_path / "copy", "imdb")
        assert "cannot be loaded" in complaint(
            tmp_path, kind="hub", adapter="imdb", path="copy", splits={"train": "train", "test": "dev"}
        )
