"""What the tests of the studio share: an author without a model, who writes as slowly as a test
wants, and a server."""

import contextlib
import copy
import threading

import numpy as np
import uvicorn

from dwindle.generation.settings import DecodingSettings
from dwindle.models.token_offsets import places
from dwindle.runfiles.arrays import Trace
from dwindle.studio import pages
from dwindle.web import server

TOKEN = "t" * 43
TEXT = "The mayor closed a bridge.\nChildren went by ferry.\nShips waited for hours."


class Slow:
    """Writes the words of its text twice, one at a time; each step waits for ``go``. ``steps`` has
    the rule of each step."""

    layers = 3
    codec = None

    def __init__(self, path="slow", rule=None):
        self.path, self.name, self.rule = path, path, rule
        self.usual = DecodingSettings(beams=1, max_length=50)
        self.go = threading.Event()
        self.go.set()
        self.put_rules = []
        self.steps = []

    def twin(self):
        other = copy.copy(self)
        other.own = None
        return other

    def put(self, rule, layers=None):
        self.own = rule
        self.put_rules.append((rule, layers))
        return ["it was not trained with this rule"] if rule == "dim:log" else []

    def remarks(self, text):
        if text == "unreadable":
            raise ValueError("this text breaks it")
        return ["the text was cut"] if len(text) > 500 else []

    def write(self, text, settings, show, stop):
        trace = None
        for count in range(1, 1 + min(2 * len(text.split()), settings.max_length)):
            self.go.wait(20)
            trace = traced(text, count)
            self.steps.append(self.own)
            show(trace)
            if stop():
                break
        return trace


def traced(text, count):
    words = text.split()
    weights = np.eye(len(words), dtype=np.float32)[np.arange(count) % len(words)]
    output = [
        words[k % len(words)] if k == 0 else f" {words[k % len(words)]}" for k in range(count)
    ]
    return Trace("text", text, words, places(words, text), output, weights, weights / 2)


@contextlib.contextmanager
def served(*authors):
    """A real server in a thread of its own; its address."""
    with server.bind("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        config = uvicorn.Config(pages.app(authors, TOKEN, port), log_level="warning", ws="none")
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}/{TOKEN}/"
        finally:
            for author in authors:
                author.go.set()
            running.should_exit = True
            thread.join(20)
