"""The studio's server: for this machine, for whoever has the link, and for its own page only."""

import json
import re
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from dwindle.studio import desk, pages
from dwindle.studio.desk import Marked
from tests.studio.studio_kit import TEXT, TOKEN, Slow

HOME = f"/{TOKEN}/"
ASKED = {"text": TEXT, "answers": [{"model": 0, "rule": "", "layers": None}], "decoding": {}}


@pytest.fixture
def client():
    with TestClient(
        pages.app([Slow("a<b>"), Slow("two")], TOKEN, 8001), base_url="http://127.0.0.1:8001"
    ) as client:
        yield client


def test_the_page_is_whole_and_lets_nothing_out(client):
    page = client.get(HOME)
    assert page.status_code == 200
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page.text)[1].replace(
        "&#39;", "'"
    )
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "connect-src 'self'" in policy
    assert page.headers["content-security-policy"] == pages.POLICY
    assert page.headers["cache-control"] == "no-store"
    assert "a<b>" not in page.text
    data = re.search(r'id="studio-data">(.*?)</script>', page.text, re.S)[1]
    offered = json.loads(data)
    assert [model["name"] for model in offered["models"]] == ["a<b>", "two"]
    assert "Velling" in offered["models"][0]["sample"]
    assert "<title>a&lt;b&gt;, two · dwindle studio</title>" in page.text
    assert not re.findall(r"""(?:src|href|action|url)\s*[=(]\s*["']?(?!#)[a-z]*:?//""", page.text)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8001", "127.0.0.1:9", "0.0.0.0:8001", "localhost"]
)
def test_another_name_that_leads_here_is_refused(client, host):
    answer = client.get(HOME, headers={"host": host})
    assert answer.status_code == 421
    assert "Studio" not in answer.text


def test_localhost_is_a_name_of_the_loopback(client):
    assert client.get(HOME, headers={"host": "localhost:8001"}).status_code == 200


def test_without_the_token_there_is_nothing(client):
    for path in ("/", f"/{TOKEN[:-1]}x/", f"/{TOKEN[:-1]}x/tasks", HOME[:-1], f"{HOME}none"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.text.startswith("dwindle studio: ")
    assert {client.get("/x/").status_code for _ in range(60)} == {404, 429}
    assert client.get(HOME).status_code == 200


def test_only_the_page_itself_may_ask(client):
    where = f"{HOME}tasks"
    assert (
        client.post(where, json=ASKED, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    )
    assert client.post(where, data={"text": "x"}).status_code == 415
    assert (
        client.post(where, content=b"{", headers={"content-type": "application/json"}).status_code
        == 400
    )
    long = b'"' + b"x" * (pages.LARGEST_POST + 1)
    assert (
        client.post(where, content=long, headers={"content-type": "application/json"}).status_code
        == 413
    )
    assert (
        client.post(f"{where}/1/stop", headers={"sec-fetch-site": "same-site"}).status_code == 403
    )
    assert client.get(f"{HOME}tasks").json()["tasks"] == []


def test_a_text_is_written_and_looked_at(client):
    answer = client.post(f"{HOME}tasks", json=ASKED)
    assert (answer.status_code, answer.json()) == (201, {"number": 1})
    seen = ""
    for _ in range(200):
        data = client.get(f"{HOME}tasks?seen={seen}&task=1").json()
        seen = data["version"]
        if data["task"]["state"] == "done":
            break
    assert data["task"]["answers"][0]["view"]["output"][0] == "The"
    assert client.get(f"{HOME}tasks?task=x").json()["task"] is None
    assert client.post(f"{HOME}tasks/1/stop", json={}).status_code == 204


def test_a_mistake_is_a_sentence(client):
    answer = client.post(f"{HOME}tasks", json=ASKED | {"text": ""})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("there is no text yet")


def test_a_run_brings_its_own_sample(tmp_path):
    (tmp_path / "outputs.jsonl").write_text(
        json.dumps({"id": "a", "source": "Its own text.", "hypothesis": "x"}) + "\n"
    )
    with TestClient(
        pages.app([Slow(str(tmp_path))], TOKEN, 8001), base_url="http://127.0.0.1:8001"
    ) as client:
        assert "Its own text." in client.get(HOME).text


def test_a_model_of_another_language_has_no_english_sample(tmp_path):
    author = Slow(str(tmp_path))
    author.codec = SimpleNamespace(tokenizer=SimpleNamespace(source_lang="fr"))
    assert pages._sample(author) == ""
    author.codec.tokenizer.source_lang = "en_XX"
    assert "Velling" in pages._sample(author)


def test_a_still_of_what_was_left_out(client, monkeypatch):
    """To keep as a file, for whoever has the link; marks by listeners where the model has them."""
    for marks, said in (
        (None, "of the average attention"),
        (Marked([(4, 9)], "Alarm."), "the model&#x27;s listeners"),
    ):
        monkeypatch.setattr(desk, "marked", lambda *_, found=marks: found)
        number = client.post(f"{HOME}tasks", json=ASKED).json()["number"]
        while client.get(f"{HOME}tasks?task={number}").json()["task"]["state"] != "done":
            pass
        answer = client.get(f"{HOME}tasks/{number}/0.svg")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "image/svg+xml"
        assert (
            answer.headers["content-disposition"]
            == f'attachment; filename="left-out-{number}-1.svg"'
        )
        assert said in answer.text
        assert ('class="mark"' in answer.text) == (marks is not None)
    for path in (
        f"{HOME}tasks/99/0.svg",
        f"{HOME}tasks/{number}/7.svg",
        f"/{'x' * 43}/tasks/{number}/0.svg",
    ):
        assert client.get(path).status_code == 404
