"""The picture of the studio: a published translator, the tenancy agreement, and what its heads say
was left out.

    python docs/demo/omission.py Helsinki-NLP/opus-mt-en-fr  # once
    python docs/demo/studio.py FOLDER

The first leaves listeners beside its findings. FOLDER is the same model as a saved one; nothing is
written into it. Starts ``dwindle studio``,
pastes the text, waits for both outputs and takes a picture of the page, ``docs/studio.png``. Needs
chromium, chromedriver and selenium.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from dwindle.auditing.listeners import FILE
from dwindle.runfiles.run import ears_of

HERE = Path(__file__).parent
WIDTH, PATIENCE = 1200, 1200
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    f"--window-size={WIDTH},900",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / given.folder.name
        model.mkdir()
        for file in given.folder.resolve().iterdir():
            (model / file.name).symlink_to(file)
        shutil.copy(ears_of(HERE / "letters.omissions.jsonl"), model / FILE)
        command = [sys.executable, "-m", "dwindle.cli.main", "studio", str(model), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as studio:
            try:
                assert studio.stdout
                link = studio.stdout.readline().split()[1]
                photograph(
                    link,
                    (HERE / "tenancy.txt").read_text(encoding="utf-8").strip(),
                    HERE.parent / "studio.png",
                )
            finally:
                studio.send_signal(signal.SIGINT)


def photograph(link: str, text: str, out: Path) -> None:
    """The page once both outputs of a text are written, as tall as it is."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.get(link)
        field = driver.find_element(By.ID, "text")
        field.clear()
        field.send_keys(text)
        driver.find_element(By.ID, "write").click()
        ended = "return document.querySelector('#queue').innerText.includes('done')"
        WebDriverWait(driver, PATIENCE).until(lambda found: found.execute_script(ended))
        height = driver.execute_script(
            "window.scrollTo(0, 0); return document.querySelector('#compared').offsetTop"
        )
        size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.save_screenshot(str(out))
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
