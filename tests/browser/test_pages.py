"""The pages in a browser: every page and action, wide and narrow, light and dark, by keyboard, and for screen readers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.keys import Tier
from gateway.pages.render import MENU
from tests.browser.conftest import NARROW, WIDE, Visit
from tests.support.gateway import Brain
from tests.support.sqlite import add, op

pytestmark = pytest.mark.browser

PLACES = [
    *(path for path, _ in MENU),
    "/insights/{sure}",
    "/insights/{injected}",
    "/insights/{directive}",
    "/episodes/{episode}",
    "/recall?q=large+swap",
    "/episodes?q=swap",
    "/insights?status=all",
    "/nowhere",
]
SERIOUS = ("serious", "critical")


def faults(page: Any) -> list[str]:
    """What axe-core finds that is serious, a line each."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in SERIOUS]


def overflow(page: Any) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_every_page_is_usable_in_every_guise(visit: Visit, ids: dict[str, str]) -> None:
    page = visit(Tier.ADMIN)
    wrong: list[str] = []
    for place in PLACES:
        page.goto(place.format(**ids))
        for size, scheme in ((WIDE, "light"), (NARROW, "dark")):
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=scheme)
            wrong += [f"{place} {scheme}: {fault}" for fault in faults(page)]
            if (wider := overflow(page)) > 0:
                wrong.append(f"{place} at {size['width']}: {wider} pixels too wide")
    assert wrong == []


def test_the_door_is_usable_too(visit: Visit) -> None:
    page = visit(None, "/insights", viewport=NARROW, color_scheme="dark")
    assert page.url.endswith("/sign-in?next=%2Finsights")
    assert faults(page) == []
    page.get_by_label("API key").fill("dbk_nonsense")
    page.keyboard.press("Enter")
    assert "no key of this brain" in page.get_by_role("alert").inner_text()
    assert faults(page) == []


def test_signing_in_and_out_by_keyboard(visit: Visit, keys: dict[Tier, str]) -> None:
    page = visit(None, "/signals")
    page.keyboard.type(keys[Tier.READ])  # the field has the focus
    page.keyboard.press("Enter")
    page.wait_for_url("**/signals")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.get_by_role("button", name="Sign out").press("Enter")
    page.wait_for_url("**/sign-in")
    page.goto("/")
    assert "/sign-in" in page.url


def test_the_menu_leads_everywhere(visit: Visit) -> None:
    page = visit(Tier.READ)
    for path, name in MENU:
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True).click()
        assert page.get_by_role("heading", level=1).inner_text() == name
        assert re.sub(r"^https?://[^/]+", "", page.url) == path
        assert page.locator("nav [aria-current=page]").inner_text() == name


def test_lists_are_narrowed_and_gone_through(visit: Visit) -> None:
    page = visit(Tier.READ, "/episodes")
    page.get_by_role("link", name="More").click()
    assert page.locator("article").count() > 0
    page.goto("/insights")
    facet = page.get_by_role("complementary").get_by_role("link", name="gas_timing")
    count = int(facet.locator("xpath=..").locator(".number").inner_text())
    facet.click()
    assert page.locator("article").count() == count
    page.get_by_label("Status").select_option("archived")
    page.get_by_role("button", name="Show").click()
    assert "status=archived" in page.url
    assert "category=gas_timing" in page.url
    page.goto("/episodes")
    page.get_by_label("Words").fill("swap")
    page.keyboard.press("Enter")
    page.locator("article a").first.click()
    assert page.get_by_role("heading", level=1).inner_text().startswith("Episode ")


def test_the_confidence_is_drawn_and_told(visit: Visit, ids: dict[str, str]) -> None:
    page = visit(Tier.READ, f"/insights/{ids['sure']}")
    chart = page.get_by_role("img")
    assert chart.get_attribute("aria-label") == "5 changes, confidence from 0.60 to 0.75"
    assert chart.locator("circle").count() == page.get_by_role("table", name="Every change").locator("tbody tr").count() == 5


@pytest.mark.parametrize(
    ("button", "told", "confidence"),
    [("Move", "Applied.", "0.70"), ("Downvote (−0.15)", "Applied.", "0.45"), ("Archive", "Applied.", "0.60")],
)
def test_an_insight_is_acted_on(brain: Brain, visit: Visit, button: str, told: str, confidence: str) -> None:
    name = f"browser-{button.split()[0].lower()}"
    brain.publish(add(name, text=f"To be judged in a browser by {button}."))
    page = visit(Tier.FEEDBACK, f"/insights/{name}")
    form = page.locator("form", has=page.get_by_role("button", name=button, exact=True))
    form.get_by_label("Because").fill("seen in a browser")
    form.get_by_role("button").click()
    assert page.get_by_role("status").first.inner_text() == told
    assert page.locator("main .meter .number").first.inner_text() == confidence
    assert "seen in a browser" in page.get_by_role("table", name="Every change").inner_text()


def test_forgetting_asks_twice(brain: Brain, visit: Visit) -> None:
    brain.publish(add("browser-forget", text="Soon forgotten."))
    page = visit(Tier.ADMIN, "/insights/browser-forget")
    form = page.locator("form.danger")
    form.get_by_label("Because").fill("wrong")
    form.get_by_role("button", name="Forget").click()
    assert page.url.endswith("/insights/browser-forget")  # the box is not ticked
    form.get_by_label("I know that this cannot be taken back").check()
    form.get_by_role("button", name="Forget").click()
    page.wait_for_url("**/insights?said=*")
    page.goto("/insights/browser-forget")
    assert page.get_by_role("alert").is_visible()


def test_a_directive_is_submitted_and_archived(visit: Visit) -> None:
    page = visit(Tier.FEEDBACK, "/directives", viewport=NARROW)
    page.get_by_label("What agents shall do").fill("Stay out of the thin pool.")
    page.get_by_label("Priority").select_option("high")
    page.get_by_role("button", name="Submit").click()
    assert page.get_by_role("status").first.inner_text() == "Applied."
    page.get_by_role("link", name="Stay out of the thin pool.").click()
    page.locator("form", has=page.get_by_role("button", name="Archive")).get_by_label("Because").fill("over")
    page.get_by_role("button", name="Archive").click()
    page.goto("/directives")
    assert page.get_by_role("link", name="Stay out of the thin pool.").count() == 0


def test_the_queue_is_worked_off_by_keyboard(brain: Brain, visit: Visit) -> None:
    for n in range(3):
        brain.publish(add(f"queued-{n}", text=f"Doubtful thing {n}."), op("DOWNVOTE", f"queued-{n}", f"queued-{n}-down", hours=6))
    page = visit(Tier.FEEDBACK, "/review")
    items = page.locator(".queue > li")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert items.nth(1).evaluate("one => one === document.activeElement")
    page.keyboard.press("k")
    first = items.nth(0).get_by_role("link").first
    target = (first.get_attribute("href") or "").split("/")[-1]
    before = float(items.nth(0).locator(".meter .number").inner_text())
    page.keyboard.press("b")
    page.wait_for_url("**/review?said=*")
    found = brain.insights.get(target)
    assert found is not None
    assert abs(float(found.confidence) - before - 0.10) < 1e-9
    page.keyboard.press("j")
    marked = page.locator(".queue > li.now")
    assert marked.count() == 1
    doubted = marked.locator("h2 a").get_attribute("href")
    page.keyboard.press("o")
    page.wait_for_url(f"**{doubted}")


def test_a_reader_has_nothing_to_press(visit: Visit, ids: dict[str, str]) -> None:
    for path in ("/review", "/directives", f"/insights/{ids['sure']}"):
        page = visit(Tier.READ, path)
        assert page.locator("main button").count() == 0


def test_changes_are_told_as_they_happen(brain: Brain, visit: Visit) -> None:
    page = visit(Tier.READ, "/insights")
    told = page.locator("#live")
    number = 0
    with page.expect_response("**/live"):
        page.reload()
    while "change" not in told.inner_text():  # the stream begins at its own time: say something until it is heard
        number += 1
        assert number < 50
        brain.publish(add(f"live-{number}", text=f"Something new {number}."))
        page.wait_for_timeout(100)
    assert re.search(r"\d+ changes? since this page was made, the last: ADD of live-\d", told.inner_text())
    assert told.get_attribute("aria-live") == "polite"
    page.get_by_role("link", name="load the page again").click()
    assert told.inner_text() == ""


def test_without_a_script_everything_works(visit: Visit, brain: Brain) -> None:
    brain.publish(add("scriptless", text="Judged without a script."))
    page = visit(Tier.FEEDBACK, "/insights/scriptless", java_script_enabled=False)
    form = page.locator("form", has=page.get_by_role("button", name="Downvote (−0.15)"))
    form.get_by_label("Because").fill("no script")
    form.get_by_role("button").click()
    assert page.get_by_role("status").first.inner_text() == "Applied."


def test_a_note_that_is_a_script_stays_text(visit: Visit, ids: dict[str, str]) -> None:
    page = visit(Tier.READ, f"/insights/{ids['injected']}")
    assert page.title() != "owned"
    assert page.locator("blockquote").inner_text().startswith("<script>")
