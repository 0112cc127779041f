"""A study folder, and a client of its pages."""

import pytest
from starlette.testclient import TestClient

from dwindle.study import pages
from tests.study import study_kit


@pytest.fixture
def folder(tmp_path):
    return study_kit.make(tmp_path / "study")


@pytest.fixture
def client(folder):
    with TestClient(pages.app(folder), follow_redirects=False) as client:
        yield client


@pytest.fixture
def rater(client, folder):
    return study_kit.Rater(client, study_kit.tokens(folder)[0])
