"""``python -m tests.soak [TRIAL ...] [--minutes M] [--seed S] [--once]``: trials in turns until
time is over."""

import argparse
import random
import secrets
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

TRIALS = [
    "attention",
    "families",
    "threads",
    "tasks",
    "moved",
    "compiled",
    "wrapped",
    "processes",
    "damage",
    "importers",
    "pages",
    "kills",
    "corpora",
    "full",
    "audits",
    "disks",
    "ballots",
    "scripts",
    "nulls",
]
Trial = Callable[[random.Random, Path], int]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument(
        "trials", nargs="*", metavar="TRIAL", help=f"some of {', '.join(TRIALS)}; default: all"
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", default=secrets.token_hex(4), help="default: drawn, and printed")
    parser.add_argument("--once", action="store_true", help="one case of each, with this very seed")
    given = parser.parse_args()
    if unknown := set(given.trials) - set(TRIALS):
        parser.error(f"no trial is called {', '.join(sorted(unknown))}")
    names = given.trials or TRIALS
    print(f"seed {given.seed}, {given.minutes:g} minutes: {', '.join(names)}", flush=True)
    cases, checks, failed = Counter(), Counter(), Counter()
    spent = dict.fromkeys(names, 0.0)
    end = time.monotonic() + 60 * given.minutes
    while time.monotonic() < end:
        name = min(names, key=spent.__getitem__)  # the trial that had least time so far
        seed = given.seed if given.once else f"{given.seed}-{cases[name]}"
        start = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="soak-") as folder:
                trial: Trial = import_module(f"tests.soak.{name}").trial
                checks[name] += trial(random.Random(seed), Path(folder))
        except Exception:
            failed[name] += 1
            print(
                f"\n{name} failed; again with: python -m tests.soak {name} --once --seed {seed}",
                flush=True,
            )
            traceback.print_exc()
        cases[name] += 1
        spent[name] += time.monotonic() - start
        if given.once and all(cases[n] for n in names):
            break
    for name in names:
        print(
            f"{name:10} {cases[name]:6} cases {checks[name]:8} checks {failed[name]:4} failed "
            f"{spent[name]:6.0f} s"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
