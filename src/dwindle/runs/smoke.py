"""A recipe from end to end in minutes: three updates and three test items, on the real data and the
real checkpoint, so that what would break after days breaks now. Starts are shortened alike.
Prepared data is kept.
"""

import resource
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from dwindle.data.settings import Size
from dwindle.runfiles.run import Run
from dwindle.runs import steps
from dwindle.runs.job import Job
from dwindle.runs.recipe import ROOT, Recipe
from dwindle.runs.steps import Say
from dwindle.training.settings import TrainingSettings

UPDATES, ITEMS = 3, 3
_ABOUT = "Smoke test"


def smoke(wanted: Recipe, folder: Path | None, say: Say) -> Job:
    """Run the shortened recipe in a folder of its own, ``folder`` or one beside the runs. An
    earlier folder of that name is removed."""
    place = folder or ROOT / "smoke" / wanted.name
    if _was_smoke(place):
        shutil.rmtree(place)
    done = steps.run(shortened(wanted), place, place / "start" if wanted.start else None, say)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    say(f"{done}: all steps work; this process held {peak / 1e9:.1f} GB at most")
    return done


def shortened(wanted: Recipe) -> Recipe:
    """The recipe and its starts with three updates and three items. The training split stays
    whole."""
    return replace(
        wanted,
        about=f"{_ABOUT} of {wanted.name}",
        data=replace(wanted.data, size=Size(wanted.data.size.train, ITEMS, ITEMS)),
        training=_short(wanted.training) if wanted.training else None,
        start=shortened(wanted.start) if wanted.start else None,
    )


def _short(training: TrainingSettings) -> TrainingSettings:
    """Few updates, each logged, with a checkpoint in between and the loss on dev at the end."""
    return replace(
        training,
        steps=UPDATES,
        epochs=None,
        log_every=1,
        save_every=UPDATES - 1,
        eval_every=UPDATES,
    )


def _was_smoke(folder: Path) -> bool:
    return str(Run(folder).settings.get("about", "")).startswith(_ABOUT)
