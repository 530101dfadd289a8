"""What a page holds: its elements with their attributes, and its text."""

from html.parser import HTMLParser

VOID = ("meta", "link", "input", "img", "wbr")


class Page(HTMLParser):
    def __init__(self, source):
        super().__init__()
        self.elements = []
        self.texts = {}
        """Kind of element -> the text directly in each."""
        self.unclosed = []
        self._open = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        while (last := self._open.pop()) != tag:
            self.unclosed.append(last)

    def handle_data(self, data):
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def all(self, tag):
        return [attributes for found, attributes in self.elements if found == tag]

    def acts(self):
        """Whether an attribute holds a script."""
        names = {name for _, attributes in self.elements for name in attributes}
        return any(name.startswith("on") for name in names)

    @property
    def text(self):
        return "".join("".join(texts) for tag, texts in self.texts.items() if tag not in ("script", "style"))
