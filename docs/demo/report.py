"""The picture of a report: what a published translator left out of three letters.

    python docs/demo/omission.py Helsinki-NLP/opus-mt-en-fr  # once
    python docs/demo/report.py

The first leaves findings and listeners beside the letters, which the report shows. Writes
``report.png``, the first screen of the page. Needs chromium.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,860")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        command = [sys.executable, "-m", "dwindle.cli.main", "report", str(HERE / "letters.jsonl")]
        subprocess.run([*command, "--out", str(page)], check=True)
        if "Something is likely left out" not in page.read_text(encoding="utf-8"):
            sys.exit("the letters were not audited here: run docs/demo/omission.py MODEL first")
        picture = f"--screenshot={HERE / 'report.png'}"
        subprocess.run(["chromium", *FLAGS, picture, page.as_uri()], check=True)


if __name__ == "__main__":
    main()
