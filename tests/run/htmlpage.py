"""Parses the pages that kiln writes, and finds elements in them. Needs only the standard library."""

import html.parser

VOID = {"meta", "link", "wbr"}


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent = tag, dict(attributes), parent
        self.children = []  # elements and strings

    def text(self):
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def all(self, tag=None, **attributes):
        """Elements below this one, in order. class_="x" selects elements that have this class."""
        for child in self.children:
            if isinstance(child, Element):
                if tag in (None, child.tag) and all(child.has(*item) for item in attributes.items()):
                    yield child
                yield from child.all(tag, **attributes)

    def has(self, name, value):
        if name == "class_":
            return value in (self.attributes.get("class") or "").split()
        return self.attributes.get(name.replace("_", "-")) == value

    def one(self, tag=None, **attributes):
        (found,) = self.all(tag, **attributes)
        return found


class Page(html.parser.HTMLParser):
    """The tree of a page. Elements that are not closed, or closed out of order, are errors."""

    def __init__(self, data):
        super().__init__(convert_charrefs=True)
        self.root = self.top = Element("", [], None)
        self.feed(data.decode("utf-8"))
        self.close()
        if self.top is not self.root:
            raise AssertionError(f"<{self.top.tag}> is not closed")

    def handle_starttag(self, tag, attributes):
        if len(dict(attributes)) < len(attributes):
            raise AssertionError(f"<{tag}> has an attribute twice")
        element = Element(tag, attributes, self.top)
        self.top.children.append(element)
        if tag not in VOID:
            self.top = element

    def handle_endtag(self, tag):
        if tag != self.top.tag:
            raise AssertionError(f"</{tag}> where <{self.top.tag}> is open, at {self.getpos()}")
        self.top = self.top.parent

    def handle_data(self, data):
        self.top.children.append(data)
