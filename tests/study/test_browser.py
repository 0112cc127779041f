"""A rater in a real browser: mouse, keyboard alone, reload, two tabs, back; and what the browser
itself can judge."""

import contextlib

import pytest

from dwindle.study.form import visible
from dwindle.study.store import Store
from tests import browser_kit
from tests.study import study_kit

pytestmark = browser_kit.MARKS
pytest.importorskip("selenium", reason="no selenium: pip install 'dwindle[dev]'")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

NASTY = (
    "<script>document.title = 'broken'</script><b>x</b> \u202ereversed\u202c \x07 " + "w" * 100_000
)


@contextlib.contextmanager
def served(folder):
    server, port = study_kit.serving(folder)
    try:
        yield [f"http://127.0.0.1:{port}/r/{token}" for token in study_kit.tokens(folder)]
    finally:
        study_kit.stop(server)


@pytest.fixture
def links(folder, driver):
    with served(folder) as links:
        yield links
        driver.get("about:blank")


def rows(folder):
    with Store(folder) as store:
        return store.rows()


def click(driver, css):
    driver.find_element(By.CSS_SELECTOR, css).click()


def choose(driver, name, value):
    radio = driver.find_element(By.CSS_SELECTOR, f'input[name="{name}"][value="{value}"]')
    radio.find_element(By.XPATH, "./ancestor::label").click()


def chosen(driver):
    return {
        r.get_attribute("name"): r.get_attribute("value")
        for r in driver.find_elements(By.CSS_SELECTOR, ":checked")
        if r.get_attribute("type") == "radio"
    }


def vote(driver, **answers):
    for name, value in {**study_kit.GOOD, **answers}.items():
        choose(driver, name, value)
    leave(driver, lambda: click(driver, "#ballot button"))


def leave(driver, action):
    """Do what loads another page, and wait until it is there."""
    driver.execute_script("window.before = true")
    action()
    there = "return !window.before && document.readyState === 'complete'"
    assert browser_kit.eventually(lambda: driver.execute_script(there)), "no new page came"


def keys(driver, *pressed):
    ActionChains(driver).send_keys(*pressed).perform()


def start(driver, link):
    driver.get(link)
    leave(driver, lambda: click(driver, "button"))


def heading(driver):
    return driver.find_element(By.TAG_NAME, "h1").text


def test_with_the_mouse_from_start_to_thanks(driver, links, folder):
    start(driver, links[0])
    for number in range(1, 5):
        assert heading(driver) == f"Item {number}"
        driver.find_element(By.ID, "comment").send_keys(f"note {number}")
        vote(driver, readability="right")
    assert heading(driver) == "Thank you"
    kept = rows(folder)
    assert [r.ballot.comment for r in kept] == [f"note {n}" for n in range(1, 5)]
    assert all(
        r.ballot.answers["readability"] == "right" and 0 < r.ballot.seconds < 60 for r in kept
    )


def test_with_the_keyboard_alone(driver, links, folder):
    driver.get(links[0])
    leave(driver, lambda: keys(driver, Keys.TAB, Keys.ENTER))  # Start is the first thing to reach
    # Shortcuts.
    keys(driver, "3", "5", "8", "9")
    assert list(chosen(driver).values()) == ["right", "tie", "no", "yes"]
    source = driver.find_element(By.CSS_SELECTOR, ".source")
    keys(driver, "s")
    assert source.get_attribute("open") is None
    keys(driver, "s")
    assert source.get_attribute("open") is not None
    leave(driver, lambda: keys(driver, Keys.ENTER))
    assert heading(driver) == "Item 2"
    # Without shortcuts: Tab between groups, arrows within, Ctrl-Enter from the comment.
    for _ in range(40):
        if driver.switch_to.active_element.get_attribute("name") == "representativeness":
            break
        keys(driver, Keys.TAB)
    keys(
        driver,
        Keys.SPACE,
        Keys.ARROW_RIGHT,
        Keys.TAB,
        Keys.SPACE,
        Keys.TAB,
        Keys.SPACE,
        Keys.TAB,
        Keys.ARROW_RIGHT,
    )
    keys(driver, Keys.TAB, "12 comments")
    assert list(chosen(driver).values()) == ["tie", "left", "yes", "no"]
    leave(
        driver,
        lambda: (
            ActionChains(driver)
            .key_down(Keys.CONTROL)
            .send_keys(Keys.ENTER)
            .key_up(Keys.CONTROL)
            .perform()
        ),
    )
    assert heading(driver) == "Item 3"
    leave(driver, lambda: keys(driver, "b"))
    assert heading(driver) == "Item 2"
    leave(driver, lambda: keys(driver, "n"))
    assert heading(driver) == "Item 3"
    assert [r.ballot.comment for r in rows(folder)] == ["", "12 comments"]


def test_reloading_midway_keeps_what_was_chosen(driver, links, folder):
    start(driver, links[0])
    choose(driver, "readability", "right")
    keys(driver, "1")
    driver.find_element(By.ID, "comment").send_keys("half <done>")
    leave(driver, driver.refresh)
    assert chosen(driver) == {"representativeness": "left", "readability": "right"}
    assert driver.find_element(By.ID, "comment").get_attribute("value") == "half <done>"
    assert rows(folder) == []
    vote(driver, readability="tie")
    assert [(r.ballot.answers["readability"], r.ballot.comment) for r in rows(folder)] == [
        ("tie", "half <done>")
    ]
    leave(driver, lambda: click(driver, "#back"))
    assert chosen(driver)["readability"] == "tie"
    assert driver.execute_script("return sessionStorage.length") == 0


def test_two_tabs_make_one_ballot(driver, links, folder):
    start(driver, links[0])
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    try:
        start(driver, links[0])
        assert heading(driver) == "Item 1"
        vote(driver, readability="right")
        assert heading(driver) == "Item 2"
        driver.switch_to.window(first)
        assert heading(driver) == "Item 1"
        vote(driver, readability="left")
        assert heading(driver) == "Item 2"
        kept = rows(folder)
        assert [(r.ballot.answers["readability"], r.changes) for r in kept] == [("left", 1)]
    finally:
        for window in driver.window_handles:
            if window != first:
                driver.switch_to.window(window)
                driver.close()
        driver.switch_to.window(first)


def test_back_by_link_and_by_the_browsers_own_button(driver, links, folder):
    start(driver, links[0])
    vote(driver)
    leave(driver, lambda: click(driver, "#back"))
    assert chosen(driver) == study_kit.GOOD
    vote(driver, representativeness="tie")
    assert heading(driver) == "Item 2"
    driver.back()
    assert browser_kit.eventually(lambda: heading(driver) == "Item 1")
    assert browser_kit.eventually(lambda: chosen(driver)["representativeness"] == "tie")
    vote(driver, representativeness="right")
    assert [(r.ballot.answers["representativeness"], r.changes) for r in rows(folder)] == [
        ("right", 2)
    ]


def test_without_scripts(driver, links, folder):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(links[0])
        click(driver, "button")
        assert browser_kit.eventually(lambda: heading(driver) == "Item 1")
        assert not driver.find_element(By.CSS_SELECTOR, ".tools").is_displayed()
        for name, value in study_kit.GOOD.items():
            choose(driver, name, value)
        click(driver, "#ballot button")
        assert browser_kit.eventually(lambda: heading(driver) == "Item 2")
        assert "saved" in driver.find_element(By.CSS_SELECTOR, '[role="status"]').text
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert [r.ballot.seconds for r in rows(folder)] == [None]


def test_no_request_leaves_the_server_and_no_policy_is_broken(driver, links, folder):
    browser_kit.forget(driver)
    start(driver, links[0])
    vote(driver)
    driver.get(
        links[0].replace("/r/" + study_kit.tokens(folder)[0], "/owner/" + study_kit.owner(folder))
    )
    assert "ballots" in driver.page_source
    urls = browser_kit.asked(driver)
    home = links[0].partition("/r/")[0] + "/"
    assert len(urls) > 4
    assert all(url.startswith(home) for url in urls if not url.startswith(("about:", "chrome"))), (
        urls
    )
    assert driver.get_log("browser") == []


def test_any_text_is_shown_as_text(driver, tmp_path):
    folder = study_kit.make(tmp_path / "study", source=NASTY, a=NASTY, b=NASTY[::-1])
    with served(folder) as links:
        start(driver, links[0])
        assert "broken" not in driver.title
        shown = driver.execute_script("return document.getElementById('source').textContent")
        assert shown == visible(NASTY)
        assert driver.execute_script("return document.scripts.length") == 1
        assert browser_kit.wide(driver) <= 0
        vote(driver)
        assert len(rows(folder)) == 1


def test_a_copied_span_points_to_its_sentence(driver, links):
    start(driver, links[0])
    copied = driver.find_element(By.CSS_SELECTOR, ".copied")
    ActionChains(driver).move_to_element(copied).perform()
    met = driver.find_element(By.CSS_SELECTOR, ".sentence.met")
    assert met.get_attribute("data-sentence") == copied.get_attribute("data-sentence")
    click(driver, "#show-copied")
    assert copied.value_of_css_property("text-decoration-line") == "underline"


def test_no_text_is_cut_on_a_phone_and_elsewhere_a_shade_says_that_there_is_more(driver, tmp_path):
    folder = study_kit.make(tmp_path / "study", source="A long story, told at length. " * 300)
    hidden = "const e = document.getElementById('source'); return e.scrollHeight - e.clientHeight"
    with served(folder) as links:
        start(driver, links[0])
        with browser_kit.screen(driver, 390):
            assert driver.execute_script(hidden) == 0
            assert driver.find_element(By.CSS_SELECTOR, ".return a").is_displayed()
        with browser_kit.screen(driver, 1280):
            assert driver.execute_script(hidden) > 1000
            shown = driver.find_element(By.ID, "source").value_of_css_property(
                "background-attachment"
            )
            assert shown == "local, local, scroll, scroll"


def test_practice_leaves_nothing_behind(driver, tmp_path):
    folder = study_kit.make(tmp_path / "study", practice=True)
    with served(folder) as links:
        start(driver, links[0])
        assert heading(driver) == "Practice"
        vote(driver)
        assert heading(driver) == "Item 1"
        assert "practice" in driver.find_element(By.CSS_SELECTOR, '[role="status"]').text
        assert chosen(driver) == {}
        assert driver.execute_script("return sessionStorage.length") == 0
        assert rows(folder) == []


@browser_kit.needs_axe
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_nothing_keeps_people_out(driver, links, folder, colours):
    with browser_kit.screen(driver, 1280, colours):
        driver.get(links[0])
        assert browser_kit.barriers(driver) == []
        leave(driver, lambda: click(driver, "button"))
        assert browser_kit.barriers(driver) == []
        driver.get(
            links[0].replace(
                "/r/" + study_kit.tokens(folder)[0], "/owner/" + study_kit.owner(folder)
            )
        )
        assert browser_kit.barriers(driver) == []


@pytest.mark.parametrize(("width", "colours"), [(1280, "light"), (360, "light"), (390, "dark")])
def test_readable_and_reachable(driver, links, folder, width, colours):
    """Contrast of every text, a name for every field, targets large enough, no sideways scrolling,
    visible focus."""
    with browser_kit.screen(driver, width, colours):
        driver.get(links[0])
        assert driver.execute_script(browser_kit.POOR) == []
        leave(driver, lambda: click(driver, "button"))
        choose(driver, "readability", "left")
        assert driver.execute_script(browser_kit.POOR) == []
        assert browser_kit.wide(driver) <= 0
        assert driver.execute_script(NAMELESS) == []
        small = (
            "return [...document.querySelectorAll('.choice, button, .button')].filter(e => "
            "e.offsetHeight < 44).length"
        )
        assert driver.execute_script(small) == 0
        keys(driver, Keys.TAB)
        focus = (
            "return getComputedStyle(document.activeElement.closest('label') ?? "
            "document.activeElement).outlineWidth"
        )
        assert driver.execute_script(focus) == "3px"
        assert (driver.execute_script(LIGHTNESS) < 128) == (colours == "dark")
        vote(driver)
        assert driver.execute_script(browser_kit.POOR) == []
        driver.get(
            links[0].replace(
                "/r/" + study_kit.tokens(folder)[0], "/owner/" + study_kit.owner(folder)
            )
        )
        assert driver.execute_script(browser_kit.POOR) == []
        assert browser_kit.wide(driver) <= 0


LIGHTNESS = (
    "return Number(getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/)[0])"
)


NAMELESS = """
return [...document.querySelectorAll("input:not([type=hidden]), textarea, progress")]
  .filter(e => !(e.labels && e.labels.length && e.labels[0].textContent.trim())).map(e =>
  e.outerHTML);
"""
