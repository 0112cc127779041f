"""The page of a sound in a real browser: a click on the waveform plays from there."""

import io
import math
import wave

import pytest

from dwindle.auditing.listeners import Finding, Listeners, Span
from dwindle.report import omissions_section, page
from tests import browser_kit

pytestmark = browser_kit.MARKS
pytest.importorskip("selenium", reason="no selenium: pip install 'dwindle[dev]'")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402

RATE, SECONDS = 16_000, 8


@pytest.fixture
def opened(driver, tmp_path):
    samples = [math.sin(n / 20) * (0.2 + 0.8 * (n % 4000 < 2000)) for n in range(RATE * SECONDS)]
    ears = Listeners(
        ((0, 0),),
        {"": 1.0},
        2.0,
        1.5,
        0.05,
        "seconds",
        {},
        True,
        (),
        {"calibrated_on": 40},
    )
    found = Finding(3.0, True, (Span(2.0, 3.5, "", 4.0),), (), (), SECONDS, 7.0)
    page.write(
        tmp_path / "s.html",
        omissions_section.sound_page(
            "whisper", samples, as_wave(samples), "What was <said>.", found, ears
        ),
    )
    driver.get((tmp_path / "s.html").as_uri())
    return driver


def as_wave(samples):
    file = io.BytesIO()
    with wave.open(file, "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(2)
        made.setframerate(RATE)
        made.writeframes(
            b"".join(int(30000 * s).to_bytes(2, "little", signed=True) for s in samples)
        )
    return file.getvalue()


def test_a_click_on_the_waveform_plays_from_there(opened):
    picture = opened.find_element(By.CSS_SELECTOR, ".wave")
    width = picture.size["width"]
    # three quarters in
    ActionChains(opened).move_to_element_with_offset(picture, width // 4, 0).click().perform()
    state = "const a = document.querySelector('audio'); return [a.paused, a.currentTime, a.error]"
    assert browser_kit.eventually(lambda: opened.execute_script(state)[1] > 6.0)
    paused, seconds, error = opened.execute_script(state)
    assert not paused
    assert error is None
    assert 5.9 < seconds < SECONDS
    line = "return +document.querySelector('.wave .now').getAttribute('x1')"
    assert browser_kit.eventually(lambda: opened.execute_script(line) >= 0.74 * 960)
    assert opened.get_log("browser") == []


def test_the_page_is_readable_and_fits(opened):
    assert browser_kit.wide(opened) <= 0
    assert opened.execute_script(browser_kit.POOR) == []
    assert "What was <said>." in opened.find_element(By.CSS_SELECTOR, ".words").text
    shades = opened.find_elements(By.CSS_SELECTOR, ".wave rect")
    assert [shade.get_attribute("class") for shade in shades] == ["gone", "unread"]
