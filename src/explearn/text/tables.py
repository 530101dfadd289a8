"""Old names, on their way out."""

from explearn.core.errors import shown
from explearn.text.rows import (
    LINES,
    READERS,
    TEXT,
    RawRow,
    find_source,
    folder_configs,
    hub_folder,
    read_file,
    read_hub,
    read_text_lines,
    split_files,
)

__all__ = [
    "LINES",
    "READERS",
    "TEXT",
    "RawRow",
    "find_source",
    "folder_configs",
    "hub_folder",
    "read_file",
    "read_hub",
    "read_text_lines",
    "shown",
    "split_files",
]
