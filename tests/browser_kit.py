"""A real browser for tests, and what it can judge of a page by itself."""

import contextlib
import json
import shutil
import time
from pathlib import Path

import pytest

_NEEDED = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="no browser: on Debian, apt-get install chromium chromium-driver",
)
# A browser is a large machine of its own, with clocks of its own. What fails is tried once more,
# and the summary counts it; a fault of ours fails twice.
MARKS = [pytest.mark.browser, pytest.mark.flaky(reruns=1), _NEEDED]


def in_a_browser(test):
    """``test`` with all of ``MARKS``, where only one test of a file needs a browser."""
    for mark in MARKS:
        test = mark(test)
    return test


_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
)


AXE = Path(__file__).parents[1] / "node_modules/axe-core/axe.min.js"
needs_axe = pytest.mark.skipif(
    not AXE.is_file(), reason="no axe-core: npm install --no-save axe-core"
)


def barriers(driver) -> list[str]:
    """What axe-core finds on the page that keeps people out, its rule and the first elements."""
    driver.execute_script(AXE.read_text(encoding="utf-8"))
    found = driver.execute_async_script(
        "const done = arguments[0];"
        "axe.run().then(r => done(r.violations.map(v => [v.id, ...v.nodes.slice(0, 3).map(n => "
        "n.html)].join(' | '))))"
    )
    return [one[:600] for one in found]


def started(profile):
    """A browser that logs what it says and what it asks for; its user's folder is ``profile``."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})

    class Patient(webdriver.Chrome):
        """Returns from ``get`` when the page has its style sheets. The driver's own word that a
        page has loaded is at times that of the page before."""

        def get(self, url):
            self.execute_script("window.left = true")
            super().get(url)
            assert eventually(lambda: self.execute_script(ARRIVED)), (
                f"{url} has not loaded: {self.get_log('browser')}"
            )

    driver = Patient(options=options, service=Service(shutil.which("chromedriver")))
    driver.set_page_load_timeout(120)  # on a busy machine
    driver.set_script_timeout(120)
    driver.get("about:blank")
    return driver


# Whether this is another document than the one that was left, whole and with its style sheets.
ARRIVED = """
return !window.left && document.readyState === "complete"
  && [...document.querySelectorAll("link[rel=stylesheet]")].every(link => link.sheet);
"""


def eventually(told) -> bool:
    """Whether it comes true, on a busy machine too. A browser's errors on the way, such as that of
    a script whose page goes while it runs, mean "not yet"."""
    from selenium.common.exceptions import WebDriverException

    end = time.monotonic() + 120
    while time.monotonic() < end:
        with contextlib.suppress(WebDriverException):
            if told():
                return True
        time.sleep(0.03)
    return False


def arrive(driver, ending: str) -> None:
    """Wait until a page whose address ends so has loaded: a page that sends its reader on has
    loaded before the one that it sends them to."""
    here = "return document.readyState === 'complete' ? location.href : ''"
    assert eventually(lambda: driver.execute_script(here).endswith(ending)), driver.current_url


def forget(driver) -> None:
    """What it has said and asked for until now."""
    for kind in ("performance", "browser"):
        driver.get_log(kind)


def asked(driver) -> set[str]:
    """The addresses that it has asked for since it was last to forget, or to tell, them."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return {
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    }


@contextlib.contextmanager
def screen(driver, width, scheme="light", mobile=None):
    """A window of that width, a phone's if it is narrow or said to be one, of a user who likes it
    light or dark."""
    size = {
        "width": width,
        "height": 800,
        "deviceScaleFactor": 1,
        "mobile": width < 500 if mobile is None else mobile,
    }
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def wide(driver) -> int:
    """By how much the page is wider than the window."""
    return driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth")


# Elements with text of their own whose contrast with the background behind them is below 4.5.
# Backgrounds that let something through are laid over each other.
POOR = """
const part = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b) + .05;
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const over = colours => {
  canvas.clearRect(0, 0, 1, 1);
  for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const behind = e => {
  const found = [];
  for (; e; e = e.parentElement) found.unshift(getComputedStyle(e).backgroundColor);
  return found;
};
const ink = e => e.closest("svg") ? getComputedStyle(e).fill : getComputedStyle(e).color;
const contrast = e => {
  const back = behind(e);
  const [a, b] = [light(over([...back, ink(e)])), light(over(back))];
  return Math.max(a, b) / Math.min(a, b);
};
const written = e => e.checkVisibility() && !e.closest(".unread") &&
  [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
const texts = [...document.querySelectorAll("body *:not(script)")].filter(written);
return texts.length < 5 ? ["no text"] : texts.filter(e => contrast(e) < 4.5).map(e =>
e.outerHTML).slice(0, 5);
"""
