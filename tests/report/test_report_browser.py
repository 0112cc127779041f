"""The report in a real browser, from disk: no error, no request, text as text, and every view does
what it says."""

import json

import numpy as np
import pytest

from dwindle.auditing.listeners import Listeners
from dwindle.bulk import files
from dwindle.report import coverage_page, page, report
from dwindle.runfiles import arrays
from dwindle.runfiles.run import Run, ears_of, findings_of
from tests import browser_kit, folders

pytestmark = browser_kit.MARKS
pytest.importorskip("selenium", reason="no selenium: pip install 'dwindle[dev]'")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Three runs with coverage and traces, and one file on other items."""
    tmp = tmp_path_factory.mktemp("runs")
    rules = {"plain": "plain", "dim": "dim:log", "dydim": "dydim:boxcox(0),boxcox(0.5)"}
    runs = [
        folders.run(tmp / name, seed, folders.recipe(rule))
        for seed, (name, rule) in enumerate(rules.items())
    ]
    other = folders.plain(tmp / "other.jsonl", count=4, sources=False)
    path = tmp / "report.html"
    page.write(path, report.html(report.make([*runs, other])))
    return path


@pytest.fixture
def opened(driver, file):
    return fresh(driver, file)


def fresh(driver, file):
    browser_kit.forget(driver)
    driver.get(file.as_uri())
    return driver


def all_of(driver, css):
    return driver.find_elements(By.CSS_SELECTOR, css)


def one(driver, css):
    return driver.find_element(By.CSS_SELECTOR, css)


def test_no_error_and_no_request_but_the_file_itself(opened, file):
    urls = browser_kit.asked(opened)
    assert {url for url in urls if not url.startswith(("about:", "chrome", "data:"))} == {
        file.as_uri()
    }
    assert opened.get_log("browser") == []


def test_the_policy_stops_what_gets_in(opened):
    """Were a script or a request to get into the page, it would not run and not leave."""
    opened.execute_script(
        "const s = document.createElement('script'); s.textContent = 'document.title = \"broken\"';"
        "document.body.append(s); const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; "
        "document.body.append(i);"
    )
    assert opened.title != "broken"
    refused = " ".join(entry["message"] for entry in opened.get_log("browser"))
    assert "script-src" in refused
    assert "127.0.0.1:9" in refused


def test_text_is_text(driver, tmp_path):
    file, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    nasty = {"id": folders.NASTY, "source": folders.NASTY, "reference": folders.NASTY}
    for path, output in ((file, folders.NASTY), (second, folders.NASTY[::-1])):
        path.write_text(json.dumps({**nasty, "hypothesis": output}) + "\n")
    html = tmp_path / "report.html"
    page.write(html, report.html(report.make([file, second])))
    fresh(driver, html)
    assert "broken" not in driver.title
    assert all_of(driver, "img") == []
    texts = driver.execute_script(
        "return [...document.querySelectorAll('.detail .words')].map(e => e.textContent)"
    )
    assert texts == [folders.NASTY, folders.NASTY[::-1], folders.NASTY, folders.NASTY]
    assert driver.get_log("browser") == []
    assert browser_kit.wide(driver) <= 0


def gains(driver):
    texts = [e.text for e in all_of(driver, "#t0-examples .list li > span:nth-child(2)")]
    return [float(text.replace("\N{MINUS SIGN}", "-")) for text in texts]


def test_examples_sort_by_gain_and_by_loss(opened):
    best = gains(opened)
    assert best == sorted(best, reverse=True)
    for button in all_of(opened, "#t0-examples .buttons button"):
        if button.text == "Largest losses":
            button.click()
    worst = gains(opened)
    assert worst == sorted(worst)
    first = one(opened, "#t0-examples .list li .id").text
    assert one(opened, "#t0-examples .detail > h3").text == first


def test_examples_by_keyboard_and_with_another_system(opened):
    one(opened, "#t0-examples .list").send_keys(Keys.ARROW_DOWN)
    rows = all_of(opened, "#t0-examples .list li")
    assert rows[1].get_attribute("aria-selected") == "true"
    assert (
        one(opened, "#t0-examples .detail > h3").text
        == rows[1].find_element(By.CSS_SELECTOR, ".id").text
    )
    before = gains(opened)
    one(opened, "#t0-examples select").send_keys("dydim")
    assert gains(opened) != before


def test_examples_are_searched_and_linked_to(driver, file, opened):
    search = one(opened, "#t0-examples input[type=search]")
    search.send_keys("ITEM-1")
    shown = [e.text for e in all_of(opened, "#t0-examples .list .id")]
    assert sorted(shown) == ["item-1", "item-10", "item-11"]
    search.send_keys("zzz")
    assert one(opened, "#t0-examples .detail").text == "No example has this text."
    driver.get("about:blank")
    driver.get(f"{file.as_uri()}#t0-examples/item-7")
    assert one(driver, "#t0-examples .detail > h3").text == "item-7"
    assert (
        one(driver, "#t0-examples .detail > h3 a")
        .get_attribute("href")
        .endswith("#t0-examples/item-7")
    )
    assert (
        abs(
            driver.execute_script(
                "return document.querySelector('#t0-examples .view').getBoundingClientRect().top"
            )
        )
        < 200
    )


def test_dwindling_can_be_seen_in_a_step(opened):
    """One scale for all steps: the outline is what was looked at, the fill what was used of it."""
    panel = "#t0-coverage .text.system:nth-child(2)"
    ActionChains(opened).move_to_element(one(opened, f"{panel} .output .token")).perform()
    assert " of " in one(opened, f"{panel} .caption").text
    edges = opened.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.style.boxShadow)",
        f"{panel} .shaded .token",
    )
    assert any(edges)
    ActionChains(opened).move_to_element(one(opened, "#t0-coverage h2")).perform()
    assert not opened.execute_script(
        "return [...document.querySelectorAll(arguments[0])].some(e => e.style.boxShadow)",
        f"{panel} .shaded .token",
    )


def test_a_slider_goes_from_step_to_step(opened):
    panel = "#t0-coverage .text.system:first-child"
    slider = one(opened, "#t0-coverage input[type=range]")
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert one(opened, f"{panel} .caption").text.startswith("After step 2 of")
    slider.send_keys(Keys.HOME)
    assert one(opened, f"{panel} .caption").text == "The whole output."


def test_a_copied_span_lights_its_sentence(opened):
    copied = one(opened, "#t0-examples .texts .copied")
    ActionChains(opened).move_to_element(copied).perform()
    lit = all_of(opened, "#t0-examples .source .met")
    assert len(lit) == 1
    words = copied.text.split()
    assert words[0] in lit[0].text


def shades(driver, css):
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => "
        "getComputedStyle(e).backgroundColor)",
        css,
    )


def test_a_step_shows_what_it_attended_to_and_steps_play(opened):
    panel = "#t0-coverage .text.system:first-child"
    whole = shades(opened, f"{panel} .shaded .token")
    assert len(set(whole)) > 3
    ActionChains(opened).move_to_element(one(opened, f"{panel} .output .token")).perform()
    assert one(opened, f"{panel} .caption").text.startswith("Step 1:")
    step = shades(opened, f"{panel} .shaded .token")
    assert step != whole
    ActionChains(opened).move_to_element(one(opened, "#t0-coverage h2")).perform()

    def settled():  # colours fade
        return shades(opened, f"{panel} .shaded .token") == whole

    assert browser_kit.eventually(settled)
    play = next(
        b for b in all_of(opened, "#t0-coverage .controls button") if b.text == "Play the steps"
    )
    play.click()
    assert browser_kit.eventually(lambda: one(opened, f"{panel} .output .now"))
    assert play.text == "Stop"
    play.click()
    assert browser_kit.eventually(settled)


def test_raw_and_effective_differ_and_an_item_without_steps_says_so(opened):
    panel = "#t0-coverage .text.system:nth-child(2)"
    ActionChains(opened).move_to_element(one(opened, f"{panel} .output .token")).perform()
    used = one(opened, f"{panel} .caption").text
    next(
        b for b in all_of(opened, "#t0-coverage .buttons button") if b.text == "What was looked at"
    ).click()
    ActionChains(opened).move_to_element(one(opened, f"{panel} .output .token")).perform()
    assert one(opened, f"{panel} .caption").text != used
    all_of(opened, "#t0-coverage .list li")[1].click()
    assert one(opened, f"{panel} h3 span").text == "sums only"


def test_the_page_of_one_text(driver, tmp_path):
    """Two models on one text that is no HTML: steps by keyboard, and no error."""
    rows = np.random.default_rng(0).dirichlet(np.ones(3), size=2).astype(np.float32)
    tokens, nasty = ["<b>", "two", "</s>"], "<b> two"
    made = arrays.Trace("text", nasty, tokens, [0, 4, -1], ["<i>", " out"], rows, rows / 2)
    page.write(tmp_path / "c.html", coverage_page.html({"plain": made, "<u>": made}))
    fresh(driver, tmp_path / "c.html")
    one(driver, ".output").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert one(driver, ".output .now").text == "out"
    assert one(driver, ".caption").text.startswith("Step 2:")
    assert [shown.text for shown in all_of(driver, ".shaded")] == [nasty, nasty]
    assert driver.get_log("browser") == []


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_on_wide_and_narrow_screens(driver, file, width, scheme):
    """No sideways scrolling, and every text has a contrast of 4.5 or more with what is behind
    it."""
    with browser_kit.screen(driver, width, scheme):
        fresh(driver, file)
        assert browser_kit.wide(driver) <= 0
        for fold in all_of(driver, "details:not([open]) > summary"):
            fold.click()
        assert browser_kit.wide(driver) <= 0
        assert driver.execute_script(browser_kit.POOR) == []


@browser_kit.needs_axe
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_people_out(driver, file, alone, scheme):
    with browser_kit.screen(driver, 1280, scheme):
        for page_ in (file, alone):
            fresh(driver, page_)
            assert browser_kit.barriers(driver) == []


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One system with findings: item-3 leaves most out, item-5 repeats itself, item-7 is far too
    long."""
    tmp = tmp_path_factory.mktemp("alone")
    records = folders.records(1)
    records[5]["hypothesis"] = "the mayor went by ferry " * 3
    records[7]["hypothesis"] += " " + " ".join(f"word{n}" for n in range(200))
    path = tmp / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    findings = [
        {
            "id": record["id"],
            "score": 9.0 if n == 3 else n / 20,
            "alarm": n == 3,
            "spans": [],
            "chars": [],
        }
        for n, record in enumerate(records)
    ]
    findings[3]["spans"] = [{"start": 0, "end": 9, "text": records[3]["source"][:9], "score": 9.0}]
    findings[4]["score"] = None
    findings_of(path).write_text("".join(json.dumps(found) + "\n" for found in findings))
    origin = {
        "calibrated_on": 40,
        "calibrated_with": "given outputs",
        "outputs": files.digest_of(Run(path)),
    }
    ears = Listeners(((0, 0),), {"": 1.0}, 2.0, 1.5, 0.05, "characters", {}, True, (), origin)
    ears.save(ears_of(findings_of(path)))
    page.write(tmp / "report.html", report.html(report.make([path])))
    return tmp / "report.html"


def test_the_worst_items_of_one_system_come_first(driver, alone):
    """By what the audit found, then by repetition and length; by id only if that is asked for."""
    fresh(driver, alone)

    def first():
        return one(driver, "#t0-examples .list .id").text

    assert first() == "item-3"
    assert one(driver, "#t0-examples .detail > h3").text == "item-3"
    assert [e.text for e in all_of(driver, "#t0-examples .list li:last-child > span")][:2] == [
        "item-4",
        "\u2013",
    ]
    choose = one(driver, "#t0-examples select")
    choose.send_keys("repeated 3")
    assert first() == "item-5"
    # By a click: letters typed soon after others would be taken for more of the same word.
    next(
        o
        for o in choose.find_elements("tag name", "option")
        if o.text.startswith("length to source")
    ).click()
    assert first() == "item-7"
    next(b for b in all_of(driver, "#t0-examples .buttons button") if b.text == "By id").click()
    assert first() == "item-0"
    assert driver.get_log("browser") == []


def test_every_criterion_sorts(driver, alone, file):
    """Of one system the worst come first, of several the largest gains, by whichever criterion is
    chosen."""
    for path in (alone, file):
        fresh(driver, path)
        data = json.loads(one(driver, "#t0-examples-data").get_attribute("textContent"))
        items = {item["id"]: item for item in data["items"]}
        options = all_of(driver, "#t0-examples .controls label:last-of-type option")
        assert [option.text for option in options] == [title for _, title, _ in data["metrics"]]
        varied = 0
        for option, (name, title, better) in zip(options, data["metrics"], strict=True):
            option.click()
            listed = [
                items[e.get_attribute("title")] for e in all_of(driver, "#t0-examples .list .id")
            ]
            assert len(listed) == len(items)
            if len(data["systems"]) > 1:
                keys = [
                    (item["scores"][name][0] - item["scores"][name][1]) * (better or 1)
                    for item in listed
                ]
            elif better:
                keys = [
                    better * item["scores"][name][0]
                    for item in listed
                    if item["scores"][name][0] is not None
                ]
            else:
                keys = [-item["worst"][name] for item in listed]
            assert keys == sorted(keys), title
            varied += keys[0] < keys[-1]
        assert varied == len(options) if path == alone else varied > 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_can_be_read(driver, alone, scheme):
    with browser_kit.screen(driver, 1280, scheme):
        fresh(driver, alone)
        assert all_of(driver, "#t0-marked mark")
        assert driver.execute_script(browser_kit.POOR) == []


@pytest.mark.parametrize("width", [1280, 360])
def test_the_navigation_fits_and_follows(opened, width):
    """On a wide window all of it is in view, on a phone where one is; one test set's sections at a
    time."""
    with browser_kit.screen(opened, width, mobile=False):
        assert [e.is_displayed() for e in all_of(opened, "nav .group")] == [True, False]
        if width > 1000:
            assert (
                opened.execute_script(
                    "const n = document.querySelector('nav'); return n.scrollWidth - n.clientWidth"
                )
                <= 0
            )
            assert one(opened, "nav").size["height"] < 70
        opened.execute_script("document.getElementById('t1-examples').scrollIntoView()")
        assert browser_kit.eventually(lambda: all_of(opened, "nav a.here[href='#t1-examples']"))
        here = one(opened, "nav a.here")
        assert 0 <= here.rect["x"] <= width - here.rect["width"]
        assert [e.is_displayed() for e in all_of(opened, "nav .group")] == [False, True]
