"""How results show themselves in Python and on the command line: as a few sentences."""

from __future__ import annotations

from abc import abstractmethod

from explearn.core.escape import printable
from explearn.show.blocks import plain


class Printed:
    """Base of results: Python shows what they found in sentences, and how to go on."""

    __slots__ = ()

    @abstractmethod
    def bold_sentences(self) -> list[str]:
        """Return the result in sentences, with marks for bold words."""

    @abstractmethod
    def next_steps(self) -> str:
        """Return how to go on in Python, such as the call that saves it."""

    def sentences(self) -> list[str]:
        """Return the result in plain sentences."""
        return [plain(sentence) for sentence in self.bold_sentences()]

    def print(self) -> None:
        """Print the sentences."""
        for sentence in self.sentences():
            print(printable(sentence))

    def __str__(self) -> str:
        return printable("\n".join([*self.sentences(), self.next_steps()]))

    __repr__ = __str__
