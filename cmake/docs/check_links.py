#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails if a link of the built site leads nowhere: a missing file, or a missing anchor of a page. Links to the web are not
followed; anything else that a page would load from the web is an error, because the site must work offline.

    check_links.py <folder of the site>
"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors = set()
        self.repeated = []
        self.links = []  # [line, tag, target]
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key == "id" and value:
                if value in self.anchors:
                    self.repeated.append(value)
                self.anchors.add(value)
            elif key == "name" and tag == "a" and value:
                self.anchors.add(value)
            elif key in ("href", "src") and value is not None:
                self.links.append((self.getpos()[0], tag, key, value))


def main(site):
    pages = {p.resolve(): Page(p.read_text()) for p in site.rglob("*.html")}
    if not pages:
        print(f"{site} has no pages")
        return 1
    failures = []
    count = 0
    for path, page in sorted(pages.items()):
        shown = path.relative_to(site.resolve())
        failures += [f"{shown}: anchor {anchor} is there twice" for anchor in page.repeated]
        for line, tag, key, link in page.links:
            count += 1
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if (tag, key) in LOADED and parts.scheme != "data":
                    failures.append(f"{shown}:{line}: {link} is loaded from the web")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir() or not target.exists():
                failures.append(f"{shown}:{line}: {link} does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                failures.append(f"{shown}:{line}: {link}: the page has no such anchor")
    print("\n".join(failures + [f"{len(failures)} of {count} links and anchors on {len(pages)} pages are wrong"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
