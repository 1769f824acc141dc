"""The documentation hangs together: an index that has every page, and links that lead somewhere."""

from __future__ import annotations

import re

from tests.support.docs import ROOT

DOCS = ROOT / "docs"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """The anchor of a heading, as the usual renderers make it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")


def test_the_index_has_each_page_once() -> None:
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): .+\.$", (DOCS / "README.md").read_text(), re.MULTILINE)
    pages = {path.name for path in DOCS.glob("*.md")} - {"README.md"}
    folders = {path.name for path in DOCS.iterdir() if path.is_dir() and list(path.glob("*.md"))}
    assert sorted(listed) == sorted(pages | folders)


def test_links_lead_somewhere() -> None:
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "bench" / "RESULTS.md"]:
        for link in _LINK.findall(_FENCE.sub("", page.read_text())):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            path = page.parent / name if name else page
            assert path.exists(), f"{page.relative_to(ROOT)}: {link}"
            if anchor:
                headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", path.read_text()), re.MULTILINE)
                assert anchor in map(slug, headings), f"{page.relative_to(ROOT)}: {link}"


def test_figures_of_sizing_are_under_headings_that_exist() -> None:
    rows = re.findall(r"^\|[^|]+\|[^|]+\| ([A-Z][\w ]+) \|$", (DOCS / "sizing.md").read_text(), re.MULTILINE)
    headings = set(re.findall(r"^## (.+)$", (ROOT / "bench" / "RESULTS.md").read_text(), re.MULTILINE))
    assert rows
    assert set(rows) <= headings
