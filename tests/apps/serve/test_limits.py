"""Sizes of a request."""

import json
from urllib.parse import urlencode

from explearn_apps.serve.limits import Limits


def test_a_body_has_room_for_the_largest_request():
    text = "\N{FOX FACE}" * 10_000
    assert Limits().body_bytes > len(json.dumps({"texts": [text]})) * 32
    assert Limits(texts=1).body_bytes > len(urlencode({"text": text, "before": text}))
    assert Limits(texts=10_000, text_chars=1_000_000).body_bytes == 256 * 2**20
