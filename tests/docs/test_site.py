"""The site that ``make docs`` builds: whole, found by searching, and nothing in it from
elsewhere."""

import functools
import json
import re
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from filelock import FileLock

from tests import browser_kit
from tests.docs.pages import HOME


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Built once, whichever process of the tests comes first. A warning is an error: a link leads
    somewhere."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if own.name.startswith("popen") else own) / "site"
    with FileLock(f"{shared}.lock"):
        if not (shared / "index.html").is_file():
            command = [
                sys.executable,
                "-m",
                "sphinx",
                "--quiet",
                "--fail-on-warning",
                "-c",
                "docs",
                ".",
                str(shared),
            ]
            done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    return shared


def test_every_page_is_on_it(site):
    pages = [
        *HOME.glob("docs/**/*.md"),
        *HOME.glob("docs/**/*.ipynb"),
        *HOME.glob("benchmarks/*.md"),
        HOME / "README.md",
        HOME / "CHANGELOG.md",
    ]
    missing = [
        page for page in pages if not (site / page.relative_to(HOME)).with_suffix(".html").is_file()
    ]
    assert not missing
    first = (site / "docs/index.html").read_text(encoding="utf-8")
    assert [
        page.stem for page in pages if f"{page.stem}.html" not in first and page.stem != "index"
    ] == []


def test_notebooks_have_their_cells(site):
    for file in HOME.glob("docs/notebooks/*.ipynb"):
        page = (site / file.relative_to(HOME)).with_suffix(".html").read_text(encoding="utf-8")
        code = [
            cell
            for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]
            if cell["cell_type"] == "code"
        ]
        assert page.count('<div class="highlight-python notranslate">') == len(code) > 2
        assert "<h1>" in page
        assert "data:image/png;base64," in page
        assert page.count('<div class="shown">') > 1


def test_the_reference_has_every_public_name(site):
    import dwindle

    text = "".join(page.read_text(encoding="utf-8") for page in (site / "docs/api").glob("*.html"))
    assert [name for name in dwindle.__all__ if f'id="dwindle.{name}"' not in text] == []


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(
            r"""<(?:script|img|iframe|link)\b[^>]* (?:src|href)=["']http[^"']*""", text
        )
        assert not loaded, page


@pytest.fixture(scope="module")
def served(site):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@browser_kit.in_a_browser
def test_in_a_browser(driver, served):
    from selenium.webdriver.common.by import By

    driver.get(served)
    browser_kit.arrive(driver, "docs/index.html")
    assert driver.find_element(By.TAG_NAME, "h1").text.startswith("dwindle")
    driver.get(f"{served}search.html?q=omissions")
    found = (By.CSS_SELECTOR, "#search-results a[href*='OMISSIONS']")
    assert browser_kit.eventually(lambda: driver.find_elements(*found))
    pages = (
        "docs/index.html",
        "README.html",
        "docs/METRICS.html",
        "docs/RESULTS.html",
        "docs/api/attach.html",
    )
    pages += ("docs/notebooks/audit_a_translator.html",)
    for width, scheme in ((1280, "light"), (375, "dark")):
        with browser_kit.screen(driver, width, scheme):
            for page in pages:
                driver.get(served + page)
                assert browser_kit.wide(driver) <= 0, (page, width)
                back = driver.execute_script(
                    "return getComputedStyle(document.body).backgroundColor"
                )
                assert (sum(map(int, re.findall(r"\d+", back)[:3])) < 200) == (scheme == "dark"), (
                    back
                )
                barriers = browser_kit.barriers(driver) if browser_kit.AXE.is_file() else []
                assert barriers == [], page
    assert [entry["message"] for entry in driver.get_log("browser")] == []
    urls = browser_kit.asked(driver)
    assert any(url.startswith(served) for url in urls)
    assert [
        url for url in urls if url.startswith(("http", "ws")) and not url.startswith(served)
    ] == []
