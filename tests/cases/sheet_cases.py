"""What several tests of sheets share."""

import csv

from project_cases import example

from explearn import Example

HOSTILE = [
    example(20, "<script>alert(1)</script> & \"quoted\" <img src=x onerror=alert(2)> 'x' {{ 7*7 }}", "positive"),
    example(21, "=cmd|'/c calc'!A1 +1 @sum -2", "negative"),
    example(22, "[[bracketed]] words ]] here", "negative"),
    example(23, "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd \U0001f600 \u0000nul", "positive"),
    Example('p, "1"\n', ("it", "rains"), "positive", "train", "films", pair=("wet", "day")),
]


def rows(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def write(path, lines):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    return path
