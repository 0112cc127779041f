"""A server killed in the middle of its work: what it acknowledged is there, once and whole."""

import http.client
import re
import signal
import threading
import time

from dwindle.study.store import Store
from tests.study import study_kit


class Voter(threading.Thread):
    """Casts ballots as fast as it can until the server is gone; remembers each one it was thanked
    for."""

    def __init__(self, port: int, token: str) -> None:
        super().__init__(daemon=True)
        self.port, self.home, self.thanked = port, f"/r/{token}", {}

    def run(self) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            where, answers, number = self.home, "", 0
            page = self.ask("GET", where)[1]
            while True:
                proof = re.search(r'name="proof" value="(\w+)"', page)[1]
                status, location = self.ask("POST", where, f"proof={proof}{answers}")
                assert status == 303
                if answers:
                    self.thanked[int(where.rpartition("/")[2])] = f"ballot {number}"
                if "/done" in location:
                    return
                number += 1
                where = location.partition("?")[0]
                page = self.ask("GET", where)[1]
                answers = (
                    "&representativeness=left&readability=right&factual_left=yes&factual_right=no"
                )
                answers += f"&comment=ballot+{number}&seconds=1.5"
        except (OSError, http.client.HTTPException):
            return  # the server was killed
        finally:
            self.connection.close()

    def ask(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        self.connection.request(method, path, body or None, headers)
        answer = self.connection.getresponse()
        content = answer.read().decode()
        if answer.status == 429:  # faster than a person
            time.sleep(0.1)
            return self.ask(method, path, body)
        return answer.status, answer.headers.get("location") or content


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path):
    folder = study_kit.make(tmp_path / "study", items=600, raters=3, links=12)
    known: dict[tuple[int, int], str] = {}
    for life in range(3):
        server, port = study_kit.serving(folder)
        voters = [Voter(port, token) for token in study_kit.tokens(folder)]
        for voter in voters:
            voter.start()
        wanted = 20 + 7 * life  # ballots, not seconds: a busy machine takes its time
        while sum(len(voter.thanked) for voter in voters) < wanted:
            assert any(voter.is_alive() for voter in voters)
            time.sleep(0.01)
        server.send_signal(signal.SIGKILL)
        study_kit.stop(server)
        for voter in voters:
            voter.join(20)
        known |= {
            (rater, place): text
            for rater, v in enumerate(voters, 1)
            for place, text in v.thanked.items()
        }
        with Store(folder) as store:
            kept = store._db.execute("SELECT rater, place, comment FROM ballot").fetchall()
            answered = set(
                store._db.execute("SELECT rater, id FROM place WHERE answered").fetchall()
            )
            rows = store.rows()
        found = {(rater, place): comment for rater, place, comment in kept}
        assert known.items() <= found.items(), "an acknowledged ballot is lost"
        assert len(found) == len(kept), "a ballot is there twice"
        assert answered == set(found), "half of a ballot"
        assert all(
            row.ballot == study_kit.ballot("left", "right", "yes", "no", row.ballot.comment, 1.5)
            for row in rows
        )
        # At most the one request of each voter that was under way may be kept without having been
        # acknowledged.
        assert len(found) - len(known) <= 12 * (life + 1)
    assert len(known) > 50
