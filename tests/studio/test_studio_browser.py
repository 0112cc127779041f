"""The studio in a real browser: a text is written before one's eyes, by mouse and by keyboard, wide
and narrow, light and dark; nothing leaves the machine."""

import pytest

from dwindle.studio.desk import Marked
from tests import browser_kit, folders
from tests.studio.studio_kit import TEXT, Slow, served

pytestmark = browser_kit.MARKS
pytest.importorskip("selenium", reason="no selenium: pip install 'dwindle[dev]'")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402


@pytest.fixture
def author():
    return Slow()


@pytest.fixture
def page(driver, author):
    with served(author) as address:
        yield opened(driver, address)
        driver.get("about:blank")


def opened(driver, address):
    browser_kit.forget(driver)
    driver.get(address)
    return driver


def one(driver, css):
    return driver.find_element(By.CSS_SELECTOR, css)


def text(driver, css):
    return driver.execute_script(
        "return document.querySelector(arguments[0])?.innerText ?? ''", css
    )


def until(driver, css, part):
    assert browser_kit.eventually(lambda: part in text(driver, css)), text(driver, "body")


def paste(driver, words):
    field = one(driver, "#text")
    field.clear()
    field.send_keys(words)


def test_a_text_is_written_side_by_side_and_nothing_leaves(page, author):
    paste(page, TEXT)
    author.go.clear()
    one(page, "#write").click()
    until(page, "#queue", "writing")
    author.go.set()
    until(page, "#queue", "done")
    assert [e.text for e in page.find_elements(By.CSS_SELECTOR, "#read .text.system h3")] == [
        "plain\nhover or tap a word",
        "training-free\nhover or tap a word",
    ]
    assert "26 words" in text(page, "#state")
    assert len(page.find_elements(By.CSS_SELECTOR, "#read .output .again")) == 2 * len(TEXT.split())
    assert "Word by word" in text(page, "#compared")
    urls = browser_kit.asked(page)
    home = page.current_url
    assert all(url.startswith((home, "about:", "chrome", "data:")) for url in urls)
    assert page.get_log("browser") == []


def test_what_is_being_written_is_shown_and_stopped(page, author):
    paste(page, TEXT)
    author.go.clear()
    one(page, "#write").click()
    one(page, "#write").click()
    until(page, "#queue", "waiting")
    one(page, "#queue li:first-child .stop").click()
    answered = (
        "return performance.getEntriesByType('resource').some(one => one.name.endsWith('/stop'))"
    )
    # a click is not yet a request that has arrived
    assert browser_kit.eventually(lambda: page.execute_script(answered))
    author.go.set()
    until(page, "#queue li:first-child", "stopped")
    one(page, "#queue li:first-child .pick").click()
    until(page, "#state", "stopped")
    assert text(page, "#read .output").startswith("The")


def test_by_keyboard_alone(page):
    paste(page, TEXT)
    one(page, "#text").send_keys(Keys.CONTROL, Keys.ENTER)
    until(page, "#queue", "done")
    one(page, "#read .output").send_keys(Keys.ARROW_RIGHT)
    assert text(page, "#read .caption").startswith("Step 1: The")
    pick = one(page, "#queue .pick")
    pick.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("class") == "pick"


def test_mistakes_are_said_beside_the_button(page):
    paste(page, " ")
    one(page, "#write").click()
    until(page, "#wrong", "there is no text yet")
    paste(page, TEXT)
    rules = page.find_elements(By.CSS_SELECTOR, "#answers input")
    rules[1].clear()
    rules[1].send_keys("dim:nonsense")
    one(page, "#write").click()
    until(page, "#wrong", "nonsense")
    rules[1].clear()
    rules[1].send_keys("dim:log")
    one(page, "#write").click()
    until(page, "#state", "it was not trained with this rule")
    assert text(page, "#wrong") == ""


def test_outputs_are_added_and_removed_and_layers_chosen(page, author):
    paste(page, TEXT)
    one(page, "#more").click()
    rows = page.find_elements(By.CSS_SELECTOR, "#answers li")
    assert len(rows) == 3
    rows[0].find_element(By.CSS_SELECTOR, ".remove").click()
    rows[1].find_element(By.CSS_SELECTOR, "select[aria-label=Layers]").send_keys("last 2")
    one(page, "#write").click()
    until(page, "#queue", "done")
    assert author.put_rules == [("training-free", 2), (None, None)]


def test_text_is_text(page):
    paste(page, folders.NASTY.replace("\u202e", ""))
    one(page, "#write").click()
    until(page, "#queue", "done")
    assert page.title == "slow · dwindle studio"
    assert page.find_elements(By.CSS_SELECTOR, "img") == []
    assert page.get_log("browser") == []


def test_it_goes_on_after_a_reload_and_says_when_the_studio_is_gone(driver, author):
    with served(author) as address:
        opened(driver, address)
        paste(driver, TEXT)
        one(driver, "#write").click()
        until(driver, "#queue", "done")
        driver.refresh()
        until(driver, "#queue", "done")
        assert "26 words" in text(driver, "#state")
    one(driver, "#write").click()
    until(driver, "#wrong", "does not answer")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_and_can_be_read(page, scheme, width):
    with browser_kit.screen(page, width, scheme, mobile=False):
        paste(page, "a" * 300 + " " + TEXT * 9)
        one(page, "#write").click()
        until(page, "#queue", "done")
        assert "the text was cut" in text(page, "#state")
        assert browser_kit.wide(page) <= 0
        assert page.execute_script(browser_kit.POOR) == []


@browser_kit.needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_people_out(page, scheme):
    with browser_kit.screen(page, 1280, scheme):
        paste(page, TEXT)
        one(page, "#write").click()
        until(page, "#queue", "done")
        assert browser_kit.barriers(page) == []


def test_what_listeners_mark_is_framed_in_the_source(page, monkeypatch):
    monkeypatch.setattr("dwindle.studio.desk.marked", lambda *_: Marked([(4, 16)], "Alarm."))
    paste(page, TEXT)
    one(page, "#write").click()
    until(page, "#queue", "done")
    found = page.find_elements(By.CSS_SELECTOR, "#read .text:first-child .shaded .gone")
    assert [e.text for e in found] == ["mayor", "closed"]
    assert "say the model's listeners" in text(page, "#read .key")
    assert "Alarm." in text(page, "#state")
