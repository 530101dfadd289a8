"""The page in a browser: it fits, a word can be changed where it stands, and it is open to all."""

from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
SIZES = {"wide": (1280, 800), "narrow": (390, 844)}
TEXT = "our guide was friendly and the castle looked beautiful in the morning light"

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}")


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        actual = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield actual
        actual.close()


@pytest.fixture
def complaints():
    return []


def open_page(browser, live, size, complaints, **options):
    """The page; what the browser refuses or fails at is added to `complaints`."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(live.address)
    return page


def ask(page, text):
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_label("attcat").check()
    page.get_by_role("button", name="Explain").click()
    page.locator("#answers").wait_for()


def violations(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    return [(row["id"], row["nodes"]) for row in axe.Axe().run(page).response["violations"]]


@pytest.mark.parametrize(("size", "scheme"), [("wide", "light"), ("narrow", "dark")])
def test_it_fits_and_is_open_to_all(browser, live, complaints, size, scheme):
    page = open_page(browser, live, SIZES[size], complaints, color_scheme=scheme)
    assert violations(page) == []
    ask(page, TEXT + " unbelievably" * 3)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    assert complaints == []
    page.context.close()


def test_a_word_is_changed_by_keyboard_where_it_stands(browser, live, complaints):
    page = open_page(browser, live, SIZES["wide"], complaints)
    ask(page, "the \N{FOX FACE} friendly <b>fox</b>")
    assert page.locator("#answers thead").inner_text().split() == ["Class", "Probability"]
    page.get_by_role("button", name="friendly", exact=True).focus()
    page.keyboard.press("Enter")
    page.keyboard.type("lazy")
    page.keyboard.press("Enter")
    page.get_by_role("columnheader", name="Before").wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "the \N{FOX FACE} lazy <b>fox</b>"
    assert page.locator("#said").inner_text().count("before") == 1
    # The word that was changed has the focus again; Escape leaves it as it is.
    assert page.evaluate("document.activeElement.textContent") == "lazy"
    page.keyboard.press("Enter")
    page.keyboard.type("other")
    page.keyboard.press("Escape")
    assert page.get_by_label("Text", exact=True).input_value() == "the \N{FOX FACE} lazy <b>fox</b>"
    assert page.locator("#result b", has_text="fox").count() == 0
    assert violations(page) == []
    # Nothing instead of a word leaves it out.
    page.get_by_role("button", name="lazy", exact=True).click()
    page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="lazy", exact=True).wait_for(state="detached")
    assert page.get_by_label("Text", exact=True).input_value().split() == ["the", "\N{FOX FACE}", "<b>fox</b>"]
    assert complaints == []
    page.context.close()


def test_a_mistake_is_said_and_what_was_typed_stays(browser, live, complaints):
    page = open_page(browser, live, SIZES["narrow"], complaints)
    page.get_by_label("Text", exact=True).fill("the fox")
    for box in page.get_by_role("checkbox").all():
        box.uncheck()
    page.get_by_label("Text", exact=True).press("Control+Enter")
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("alert").inner_text() == "Choose at least one method."
    assert page.get_by_label("Text", exact=True).input_value() == "the fox"
    page.context.close()


def test_it_works_without_a_script(browser, live, complaints):
    page = open_page(browser, live, SIZES["narrow"], complaints, java_script_enabled=False)
    ask(page, TEXT)
    assert page.locator("#result .words span").count() > len(TEXT.split())
    assert not page.locator(".edit").is_visible()
    page.get_by_label("Text", exact=True).fill(TEXT.replace("beautiful", "lazy"))
    page.get_by_role("button", name="Explain").click()
    page.get_by_role("columnheader", name="Before").wait_for()
    page.context.close()
