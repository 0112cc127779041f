"""The pages, without a browser: the journey, what a rater may learn, what a stranger may do."""

import html
import json
import re
import unicodedata
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import httpx2
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from dwindle.study import form, pages, questions, store
from dwindle.study.questions import SUMMARY
from dwindle.study.store import Store
from dwindle.web import security
from tests.study import study_kit
from tests.study.study_kit import GOOD, SECRETS, Rater

NASTY = (
    "<script>alert(1)</script> <img src=x onerror=alert(2)> {{ 7 * 7 }} {% raw %} &lt;b&gt; \" ' "
    "\u202eright to left\u202c \u200f \x00\x07\x1b </textarea></div> ${x} مرحبا " + "w" * 100_000
)


def rows(folder):
    with Store(folder) as opened:
        return opened.rows()


# The journey.


def test_a_rater_goes_from_guidelines_to_thanks(rater, folder):
    page = rater.get()
    assert page.status_code == 200
    for word in ("Representativeness", "Readability", "Factual correctness", "Start"):
        assert word in page.text
    where = rater.start()
    for number in range(1, 5):
        assert f"<h1>Item {number}</h1>" in rater.page.text
        assert f"{number - 1} answered, at most {5 - number} left" in rater.page.text
        where = rater.vote(comment=f"  note {number}\r\nmore ", seconds="12.5")
    assert where.startswith("/done?saved=")
    assert "Thank you, your answer is saved." in rater.page.text
    assert "nothing left for you" in rater.page.text
    kept = rows(folder)
    assert [r.ballot.comment for r in kept] == [f"note {n}\nmore" for n in range(1, 5)]
    assert {r.ballot.seconds for r in kept} == {12.5}


def test_what_is_shown_on_the_left_is_what_was_drawn(rater, folder):
    with Store(folder) as opened:
        texts = {source: (a, b) for _, source, a, b, _ in opened.pairs()}
    rater.start()
    seen = []
    for _ in range(4):
        source, left, right = (
            plain(block)
            for block in re.findall(r'class="text".*?>(.*?)</div>', rater.page.text, re.S)
        )
        seen.append((texts[source].index(left), texts[source].index(right)))
        rater.vote()
    assert [("a", "b")[left] for left, _ in seen] == [r.left for r in rows(folder)]
    assert all({left, right} == {0, 1} for left, right in seen)


def plain(block: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", block))


def test_reloading_and_a_second_tab_show_the_same_item_and_make_one_ballot(rater, client, folder):
    where = rater.start()
    assert rater.start() == where
    tab = Rater(client, study_kit.tokens(folder)[0])
    assert tab.start() == where
    first, second = rater.vote(), tab.vote(readability="right")
    assert first.partition("?")[0] == second.partition("?")[0]
    (kept,) = rows(folder)
    assert (kept.ballot.answers["readability"], kept.changes) == ("right", 1)


def test_going_back_shows_the_answers_and_changes_them(rater, folder):
    first = rater.start()
    rater.vote(comment="<first> & only", representativeness="right")
    assert f'href="{rater.home}{first}"' in rater.page.text
    rater.get(first)
    assert "Save the change" in rater.page.text
    assert "&lt;first&gt; &amp; only</textarea>" in rater.page.text
    assert re.search(r'name="representativeness" value="right"[^>]* checked', rater.page.text)
    assert len(re.findall(r"radio[^>]* checked>", rater.page.text)) == 4
    rater.vote(representativeness="tie", comment="")
    assert [(r.ballot.answers["representativeness"], r.ballot.comment) for r in rows(folder)] == [
        ("tie", "")
    ]
    assert "<h1>Item 2</h1>" in rater.page.text


def test_an_open_question_is_asked_again_and_nothing_is_lost(rater, folder):
    rater.start()
    for field in GOOD:
        rater.vote(**{field: ""}, comment="keep <me>")
        assert rater.page.status_code == 422
        assert 'role="alert"' in rater.page.text
        assert "keep &lt;me&gt;" in rater.page.text
        rater.get(str(rater.page.url.path))
    rater.vote(comment="x" * 2001)
    assert "shorten your comment" in rater.page.text
    assert rows(folder) == []


TIMES = [("", None), ("nan", None), ("inf", None), ("x", None), ("-3", 0.0), ("1e9", 86400.0)]


@pytest.mark.parametrize(("given", "kept"), TIMES)
def test_time_spent_is_a_time_or_nothing(given, kept):
    assert form.read_ballot({**GOOD, "seconds": given}, SUMMARY).seconds == kept


def test_an_item_that_was_passed_on(client, folder, rater, monkeypatch):
    lost = rater.start()
    page = rater.page
    now = store.time.time()
    with Store(folder, lambda: now + 10 * store.LEASE) as opened, opened.transaction():
        assert opened.draw(2) == int(lost[1:])
    assert rater.get(lost).status_code == 410
    assert "passed on to somebody else" in rater.page.text
    rater.page = page
    assert "saved=late-" in rater.vote()
    assert "your answer to it will not count" in rater.page.text
    assert [r.counted for r in rows(folder)] == [False]


def test_practice_comes_first_and_keeps_nothing(tmp_path):
    folder = study_kit.make(tmp_path / "study", items=1, practice=True)
    with TestClient(pages.app(folder), follow_redirects=False) as client:
        one = Rater(client, study_kit.tokens(folder)[0])
        assert one.start() == "/practice"
        assert "<h1>Practice</h1>" in one.page.text
        assert not one.vote(readability="")
        assert one.page.status_code == 422
        assert "<h1>Practice</h1>" in one.page.text
        first = one.vote(comment="tried")
        assert first.endswith("?saved=practice")
        assert "From here on your answers count." in one.page.text
        assert rows(folder) == []
        assert one.start() == first.partition("?")[0]  # not a second time
        one.vote()
        assert (
            client.post(one.home + "/practice", data={**GOOD, "proof": "0" * 64}).status_code == 403
        )
    assert len(rows(folder)) == 1


def test_a_study_without_practice_has_no_such_page(rater):
    assert rater.get("/practice").status_code == 404


def test_who_has_finished_gets_a_code_that_the_owner_knows(client, folder):
    codes = set()
    for token in study_kit.tokens(folder)[:2]:
        one = Rater(client, token)
        one.start()
        assert "completion code" not in one.get("/done").text
        one.start()
        while not one.vote().startswith("/done"):
            pass
        codes.add(re.search(r'class="code">(\w{8})<', one.page.text)[1])
    assert len(codes) == 2
    page = client.get(f"/owner/{study_kit.owner(folder)}").text
    assert all(code in page for code in codes)
    late = Rater(client, study_kit.tokens(folder)[2])
    late.start()
    assert "completion code" not in late.page.text


def test_one_code_for_all(tmp_path):
    folder = study_kit.make(tmp_path / "study", items=1, code="<C0DE>")
    with TestClient(pages.app(folder), follow_redirects=False) as client:
        one = Rater(client, study_kit.tokens(folder)[0])
        one.start()
        one.vote()
        assert "&lt;C0DE&gt;" in one.page.text


def test_own_questions_are_asked_and_kept(tmp_path):
    texts = {"title": "T<b>", "asked": "Which <i>caption</i>?", "meaning": "M"}
    own = {"noun": "caption", "compared": [{"name": f"q_{x}", **texts} for x in "abcd"]}
    asked = questions.parse(json.dumps(own), "own")
    folder = study_kit.make(tmp_path / "study", items=1, raters=1, asked=asked)
    with TestClient(pages.app(folder), follow_redirects=False) as client:
        one = Rater(client, study_kit.tokens(folder)[0])
        assert "Comparing captions" in one.get().text
        one.start()
        assert one.page.text.count("Which &lt;i&gt;caption&lt;/i&gt;?") == 4
        # twelve answers, ten keys
        assert re.findall(r'data-key="(\d)"', one.page.text) == list("1234567890")
        assert one.vote(q_a="left") == ""  # the others are open
        one.get(str(one.page.url.path))
        assert one.vote(q_a="left", q_b="tie", q_c="right", q_d="left").startswith("/done")
        assert client.get(f"/owner/{study_kit.owner(folder)}").status_code == 200
    assert rows(folder)[0].ballot.answers == {
        "q_a": "left",
        "q_b": "tie",
        "q_c": "right",
        "q_d": "left",
    }


def test_the_example_of_the_manual_is_a_set_of_questions():
    manual = (Path(__file__).parents[2] / "docs" / "STUDY.md").read_text("utf-8")
    asked = questions.parse(re.search(r"```json\n(.*?)```", manual, re.S)[1], "docs/STUDY.md")
    assert (asked.noun, list(asked.answers)) == (
        "caption",
        ["detail", "correct_left", "correct_right"],
    )


# The owner.


def test_the_owner_is_warned_of_raters_who_do_not_read(tmp_path):
    folder = study_kit.make(tmp_path / "study", checks=2)
    with TestClient(pages.app(folder), follow_redirects=False) as client:
        one = Rater(client, study_kit.tokens(folder)[0])
        one.start()
        while not one.vote(seconds="0.5").startswith("/done"):
            pass
        page = client.get(f"/owner/{study_kit.owner(folder)}").text
    assert (
        "Rater 1 passed 0 of 2 attention checks and answered in 0.5 seconds an item (median)."
        in page
    )
    assert page.count('role="alert"') == page.count('class="warned"') == 1


def test_the_owner_sees_progress_and_agreement_but_not_who_leads(client, folder):
    for token in study_kit.tokens(folder)[:2]:
        one = Rater(client, token)
        one.start()
        for _ in range(3):
            one.vote(seconds="4", comment="=HYPERLINK()")
    page = client.get(f"/owner/{study_kit.owner(folder)}")
    assert page.status_code == 200
    assert "6 of 8 ballots" in page.text
    assert "<td>6</td><td>3</td>" in page.text.replace("\n", "")
    assert "3 · 0 · 0" in page.text
    assert "100.0 %" in page.text
    assert all(name in page.text for name in SECRETS)
    csv = client.get(f"/owner/{study_kit.owner(folder)}/ballots.csv")
    lines = csv.text.splitlines()
    assert lines[0].startswith("item,check,rater,left,right,")
    assert len(lines) == 7
    assert all(",'=HYPERLINK()," in line for line in lines[1:])
    jsonl = client.get(f"/owner/{study_kit.owner(folder)}/ballots.jsonl").text.splitlines()
    assert {json.loads(line)["comment"] for line in jsonl} == {"=HYPERLINK()"}
    assert csv.headers["content-disposition"] == "attachment; filename=ballots.csv"


def test_the_owners_page_works_before_the_first_ballot(client, folder):
    assert client.get(f"/owner/{study_kit.owner(folder)}").status_code == 200
    assert client.get(f"/owner/{study_kit.owner(folder)}/ballots.csv").text.count("\n") == 1


# What a rater may learn.


def test_names_of_systems_and_ids_never_reach_a_rater(tmp_path):
    folder = study_kit.make(tmp_path / "study", checks=2)
    with TestClient(pages.app(folder), follow_redirects=False) as client:
        answers = []
        client.event_hooks = {"response": [lambda r: answers.append(r)]}
        one = Rater(client, study_kit.tokens(folder)[0])
        one.start()
        while not one.vote().startswith("/done"):
            pass
        one.vote_bad = client.post(one.home + "/1", data={})
        one.get("/999")
        one.get("/x")
    assert len(answers) > 10
    for answer in answers:
        answer.read()
        seen = str(answer.headers) + answer.text
        assert not any(name in seen for name in SECRETS)
        assert "id-" not in re.sub(r'\b(id|for)="[^"]*"|aria-labelledby="[^"]*"', "", answer.text)
        assert "check" not in answer.text.replace(" checked", "").replace("checkbox", "")


def test_any_text_is_shown_as_text(tmp_path):
    folder = study_kit.make(tmp_path / "study", source=NASTY, a=NASTY, b="")
    with TestClient(pages.app(folder), follow_redirects=False) as client:
        one = Rater(client, study_kit.tokens(folder)[0])
        one.start()
        assert one.page.status_code == 200
        text = one.page.text
        assert len(re.findall("<script", text)) == 1
        assert "<img" not in text
        assert "onerror=alert" in text
        assert "(This summary is empty.)" in text
        source = re.search(r'id="source" dir="auto".*?>(.*?)</div>', text, re.S)[1]
        assert plain(source) == form.visible(NASTY)
        assert not any(unicodedata.category(c) == "Cc" and c not in "\n\t" for c in text)


# What a stranger may do.


def test_every_answer_carries_the_headers(client, folder, rater):
    rater.start()
    owner = f"/owner/{study_kit.owner(folder)}"
    paths = ("/", "/nowhere", "/r/x", rater.home, "/static/study.css", "/static/none", owner)
    for path in (*paths, str(rater.page.url.path)):
        answer = client.get(path)
        for name, value in security.HEADERS.items():
            assert answer.headers[name] == value
        kept = path in ("/static/study.css", "/static/none")
        assert answer.headers["cache-control"] == ("max-age=3600" if kept else "no-store")
        assert "server" not in answer.headers
        assert "set-cookie" not in answer.headers


def test_the_policy_allows_nothing_inline_and_nothing_from_outside():
    policy = security.HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "default-src 'none'" in policy
    home = Path(pages.__file__).parent
    for file in [*home.glob("templates/*.html"), *home.glob("static/*")]:
        if file.name == "mturk.html":  # shown by Amazon, not by us
            continue
        text = file.read_text()
        assert not re.search(
            r"(?i)(href|src|action)=\"(https?:)?//|url\(|@import|\bon\w+=\"|<style|style=", text
        ), file
        assert not re.search(r"<script(?! src=\"/static/study.js\" defer></script>)", text)
        if file.suffix == ".js":
            assert not re.search(
                r"innerHTML|insertAdjacent|document\.write|eval\(|fetch\(|XMLHttp|import\(", text
            )


@pytest.mark.parametrize(
    "path",
    [
        "/static/../store.py",
        "/static/%2e%2e/store.py",
        "/static/..%2fstore.py",
        "/static/%2e%2e%2f%2e%2e%2fcli/main.py",
        "/static//etc/passwd",
        "/static/%00",
        "/owner/x/../../links.json",
        "/links.json",
        "/study.sqlite3",
        "/static/....//store.py",
        "/static/\\..\\store.py",
        "/owner/a/ballots.%2e%2e",
    ],
)
def test_no_file_outside_the_static_folder(client, path):
    answer = client.get(path)
    assert answer.status_code in (400, 404)
    assert "import" not in answer.text


@pytest.mark.parametrize(
    "token", ["' OR 1=1 --", "%27%20OR%20%271%27=%271", "x" * 5000, "%00", "..", "é", "%ff%fe"]
)
def test_tokens_that_are_none(client, token):
    for path in (f"/r/{token}", f"/r/{token}/1", f"/owner/{token}", f"/owner/{token}/ballots.csv"):
        answer = client.get(path)
        assert answer.status_code in (404, 429)
        assert "OR 1" not in answer.text


def test_raters_tokens_do_not_open_the_owners_page_nor_the_reverse(client, folder):
    assert client.get(f"/owner/{study_kit.tokens(folder)[0]}").status_code == 404
    assert client.get(f"/r/{study_kit.owner(folder)}").status_code == 404


def test_a_post_needs_the_proof_of_its_own_form(rater, client, folder):
    where = rater.start()
    path = rater.home + where
    proof = rater.proof()
    other = Rater(client, study_kit.tokens(folder)[1])
    other.start()
    for bad in ("", "0" * 64, proof[:-1], other.proof(), "é"):
        assert client.post(path, data={**GOOD, "proof": bad}).status_code == 403
        assert client.post(rater.home, data={"proof": bad}).status_code == 403
    assert (
        client.post(f"{other.home}/{where[1:]}", data={**GOOD, "proof": proof}).status_code == 403
    )
    for site in ("cross-site", "same-site"):
        assert (
            client.post(
                path, data={**GOOD, "proof": proof}, headers={"Sec-Fetch-Site": site}
            ).status_code
            == 403
        )
    assert rows(folder) == []
    assert (
        client.post(
            path, data={**GOOD, "proof": proof}, headers={"Sec-Fetch-Site": "same-origin"}
        ).status_code
        == 303
    )


def test_sizes_and_kinds_of_posts(rater, client, folder):
    rater.start()
    path, proof = str(rater.page.url.path), rater.proof()
    good = "&".join(f"{k}={v}" for k, v in {**GOOD, "proof": proof}.items())
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (
        client.post(
            path, content=good + "&comment=" + "x" * form.LARGEST_POST, headers=kind
        ).status_code
        == 413
    )
    assert client.post(path, content=good + "&x=1" * 50, headers=kind).status_code == 400
    assert client.post(path, content=good + "&comment=%ff%fe", headers=kind).status_code == 400
    assert client.post(path, content=b"\xff\xfe", headers=kind).status_code == 400
    assert client.post(path, content=good).status_code == 415
    assert client.post(path, json=GOOD).status_code == 415
    assert client.put(path).status_code == 405
    longest = "comment=" + "%F0%9F%98%80" * form.LONGEST_COMMENT
    assert client.post(path, content=f"{good}&{longest}", headers=kind).status_code == 303
    assert len(rows(folder)[0].ballot.comment) == form.LONGEST_COMMENT


@pytest.fixture
def still(monkeypatch):
    """Time stands still for the limits of rate, however slow the machine is."""
    monkeypatch.setattr(pages, "Limiter", partial(security.Limiter, clock=lambda: 0.0))


def test_strangers_guess_slowly_and_raters_do_not_suffer_from_it(still, client, rater):
    codes = [client.get(f"/r/guess-{i}").status_code for i in range(60)]
    assert codes == [404] * 30 + [429] * 30
    assert rater.get().status_code == 200


def test_a_rater_who_hammers_is_slowed(still, rater):
    codes = [rater.get().status_code for _ in range(80)]
    assert codes == [200] * 60 + [429] * 20


def test_a_full_disk_keeps_the_answers_on_the_page_and_says_so(tmp_path, capsys):
    folder = study_kit.make(tmp_path / "study")
    with TestClient(pages.app(folder), follow_redirects=False) as client:
        one = Rater(client, study_kit.tokens(folder)[0])
        one.start()
        page = one.page
        whole = Store.save

        def full(self, *values):
            pages_ = self._db.execute("PRAGMA page_count").fetchone()[0]
            self._db.execute(f"PRAGMA max_page_count = {pages_}")
            self._db.execute("CREATE TABLE too_much (x)")
            return whole(self, *values)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Store, "save", full)
            one.vote(comment="precious", readability="right")
        assert one.page.status_code == 503
        assert "was not saved" in one.page.text
        assert "precious" in one.page.text
        assert re.search(r'name="readability" value="right"[^>]* checked', one.page.text)
        assert "is full: free some space" in capsys.readouterr().err
        assert rows(folder) == []
        one.page = page
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                Store,
                "_writing",
                lambda s: s._db.execute("PRAGMA max_page_count = 100000") and s._clock(),
            )
            assert one.vote(comment="precious").startswith("/")
        assert [r.ballot.comment for r in rows(folder)] == ["precious"]


# Fuzzing.


@pytest.fixture
def unlimited(client, monkeypatch):
    """Without the limits of rate, which would answer most of the fuzz by themselves."""
    monkeypatch.setattr(security.Limiter, "allows", lambda *_: True)
    return client


MARK = "<x-fuzz>"
WORDS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "r",
            "owner",
            "static",
            "done",
            "..",
            ".",
            "%2e%2e",
            "ballots.csv",
            "1",
            "9" * 400,
            "-1",
            "1e3",
            "٣",
        ]
    ),
    st.sampled_from(
        [
            "' OR 1=1 --",
            f"{MARK}<script>",
            "\x00",
            "%00",
            "%ff",
            "ＡＢ",
            "TOKEN",
            "OWNER",
            "TOKEN",
            "OWNER",
        ]
    ),
)
FIELDS = st.dictionaries(
    st.one_of(
        st.sampled_from([*GOOD, "proof", "comment", "seconds", "saved"]), st.text(max_size=10)
    ),
    st.one_of(
        st.sampled_from([*GOOD.values(), MARK, "PROOF", "late-1", "1", "9" * 300]),
        st.text(max_size=40),
    ),
    max_size=9,
)


@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    method=st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"]),
    path=st.lists(WORDS, max_size=4),
    fields=FIELDS,
    query=st.booleans(),
    kind=st.sampled_from(
        ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""]
    ),
)
def test_fuzz(unlimited, folder, method, path, fields, query, kind):
    """Whatever is asked: no error of ours, no trace, nothing given back as HTML, all headers."""
    known = {"TOKEN": study_kit.tokens(folder)[0], "OWNER": study_kit.owner(folder)}
    url = "/" + "/".join(known.get(part, part).replace("?", "").replace("#", "") for part in path)
    with Store(folder) as opened:
        key = opened.key
    values = {k: security.proof(key, 1, 0) if v == "PROOF" else v for k, v in fields.items()}
    body = urlencode(values).encode()
    try:
        answer = unlimited.request(method, url, params=values if query else None, content=body,
                                headers={"content-type": kind} if kind else {})  # fmt: skip
    except (httpx2.InvalidURL, UnicodeEncodeError):  # an address that the client itself refuses
        reject()
    assert answer.status_code < 500
    assert "Traceback" not in answer.text
    assert MARK not in answer.text
    assert answer.headers["content-security-policy"] == security.HEADERS["Content-Security-Policy"]
