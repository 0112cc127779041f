"""Raters, and a server that is killed: no ballot that was acknowledged is lost, none is there
twice."""

import signal
import time
from pathlib import Path
from random import Random

from dwindle.study.store import Store
from tests.study import study_kit
from tests.study.test_kill import Voter


def trial(random: Random, folder: Path) -> int:
    made = study_kit.make(
        folder / "study", items=random.randint(50, 400), raters=3, links=random.randint(3, 12)
    )
    known: dict[tuple[int, int], str] = {}
    for _ in range(random.randint(1, 4)):
        server, port = study_kit.serving(made)
        voters = [Voter(port, token) for token in study_kit.tokens(made)]
        for voter in voters:
            voter.start()
        time.sleep(random.uniform(0.2, 2.0))
        server.send_signal(signal.SIGKILL)
        study_kit.stop(server)
        for voter in voters:
            voter.join(20)
        known |= {
            (rater, place): text
            for rater, v in enumerate(voters, 1)
            for place, text in v.thanked.items()
        }
        with Store(made) as store:
            kept = store._db.execute("SELECT rater, place, comment FROM ballot").fetchall()
        found = {(rater, place): comment for rater, place, comment in kept}
        assert known.items() <= found.items(), "an acknowledged ballot is lost"
        assert len(found) == len(kept), "a ballot is there twice"
    return len(known)
