"""Files that tests write."""

import json


def write_lines(path, rows):
    """Write a table as JSON lines, in a folder that is made; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
