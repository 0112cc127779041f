"""Audits, outputs and scores on a real cluster of two nodes, each with a worker killed in the
middle: the bytes of one process.

They are skipped where Ray is not installed, as in ``make test``: two nodes take half a minute to
start.
"""

import json
import os
import random
import signal
from pathlib import Path

import datasets
import numpy as np
import psutil
import pytest

os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # read when Ray is imported
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'dwindle[ray]'")

import dwindle  # noqa: E402
from dwindle.auditing import bulk  # noqa: E402
from dwindle.bulk import cluster  # noqa: E402
from dwindle.bulk.shards import alone  # noqa: E402
from dwindle.generation import bulk as writing  # noqa: E402
from dwindle.metrics import catalogue, score, significance  # noqa: E402
from dwindle.metrics.spread import OnCluster, write_items  # noqa: E402
from dwindle.runfiles import outputs  # noqa: E402
from dwindle.runfiles.run import Run, findings_of  # noqa: E402
from tests.auditing import small  # noqa: E402
from tests.metrics import movers  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray and of what it brings


@pytest.fixture(scope="module")
def nodes():
    from ray.cluster_utils import Cluster

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    nodes = Cluster()
    for own in ({"include_dashboard": False}, {}):
        started(nodes, num_cpus=1, **own)
    nodes.wait_for_nodes(timeout=120)
    yield nodes
    nodes.shutdown()


def started(nodes, **settings):
    """Add a node. Ray gives one 30 seconds to start, which a busy machine may not keep to."""
    before = set(psutil.Process().children())
    for attempt in range(5):
        try:
            nodes.add_node(wait=False, **settings)
            break
        except Exception as error:
            if attempt == 4 or "timed out during startup" not in str(error):
                raise
            for process in set(psutil.Process().children()) - before:
                process.kill()  # else it may join the cluster later, as one node too many
                process.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved model with its listeners, an encoder, and a file of pairs of each kind."""
    folder = tmp_path_factory.mktemp("corpus")
    tokenizer = small.tokenizer()
    model = small.copier(len(tokenizer))
    ears = dwindle.listeners(model, tokenizer, small.TEXTS)
    del model.generate  # which cannot be saved
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    ears.save(folder / "model")
    small.writer(len(tokenizer)).save_pretrained(folder / "writer")
    tokenizer.save_pretrained(folder / "writer")
    (folder / "encoder").mkdir()
    movers.write(folder / "encoder")
    rng, items = random.Random(1), []
    for n in range(300):
        text = rng.choice(small.TEXTS)
        items.append(
            {"id": str(n), "source": text, "hypothesis": text if n % 7 else text[: len(text) // 2]}
        )
    (folder / "a.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items[:200]))
    datasets.Dataset.from_list(items[200:]).to_parquet(folder / "b.parquet")
    return folder


def shards(folder, where):
    (folder / where).mkdir()
    auditor = dwindle.Auditor("model", batch=2)
    files = []
    for name in ("a.jsonl", "b.parquet"):
        run = Run(folder / name)
        files.append((run, folder / where / findings_of(folder / name).name, bulk.checked(run)))
    return bulk.shards(files, auditor)


class Killer:
    """Told how much is done, it kills a worker once, in the middle."""

    def __init__(self, after: int) -> None:
        self.after, self.killed, self.told = after, None, []

    def __call__(self, done: int) -> None:
        self.told.append(done)
        if done >= self.after and self.killed is None:
            own = psutil.Process().children(recursive=True)
            held = [one for one in own if one.cmdline() and "MapWorker" in one.cmdline()[0]]
            self.killed = held[0].pid
            os.kill(self.killed, signal.SIGKILL)


def same(one, two):
    """The names of the files of two folders, which have the same bytes."""
    names = sorted(path.name for path in one.iterdir())
    assert sorted(path.name for path in two.iterdir()) == names
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes()
    return names


def test_an_audit_with_a_killed_worker(folder, nodes, monkeypatch):
    monkeypatch.chdir(folder)
    kill = Killer(64)
    expected = bulk.audit(shards(folder, "alone"), alone)
    spread = bulk.audit(
        shards(folder, "spread"), cluster.engine(nodes.address), lambda stage, n, total: kill(n)
    )
    assert kill.killed
    assert spread == expected
    assert expected.alarmed > 20
    assert len(same(folder / "alone", folder / "spread")) == 4


def test_outputs_with_a_killed_worker(folder, nodes, monkeypatch):
    """Four blocks of 64 sources and a rest, of different lengths; one is empty."""
    monkeypatch.chdir(folder)
    files = [Path("c.jsonl"), Path("d.parquet")]
    records = [
        {"id": n, "source": text[: len(text) * (1 + n % 3) // 3] if n != 70 else " ", "more": [n]}
        for n, text in enumerate(random.Random(2).choices(small.TEXTS, k=300))
    ]
    files[0].write_text("".join(json.dumps(one) + "\n" for one in records[:200]))
    datasets.Dataset.from_list(records[200:]).to_parquet(files[1])
    settings = {"beams": 2, "min_length": 3, "max_length": 6, "batch_size": 4}
    scribe = writing.Scribe("writer", settings)
    kill = Killer(64)
    found = []
    for name, engine in (("here", alone), ("there", cluster.engine(nodes.address))):
        Path(name).mkdir()
        tell = kill if name == "there" else lambda n: None
        found.append(
            writing.write(files, Path(name), scribe, engine, lambda stage, n, total, t=tell: t(n))
        )
    assert kill.killed
    assert found[0] == found[1] == writing.WritingSummary(300, 0, 1, 0)
    assert same(folder / "here", folder / "there") == [
        "c.decoding.json",
        "c.jsonl",
        "d.decoding.json",
        "d.parquet",
    ]
    written = [json.loads(line) for line in Path("here/c.jsonl").read_text().splitlines()]
    assert [one["more"] for one in written] == [[n] for n in range(200)]
    assert len({one["hypothesis"] for one in written}) > 10
    assert written[70]["hypothesis"] == ""


def test_scores_with_a_killed_worker(folder, nodes, monkeypatch):
    """Six blocks: rows, values, intervals and what is written of each item."""
    monkeypatch.chdir(folder)
    drawn = random.Random(3).choices(movers.pairs(), k=1500)
    records = [
        {"id": str(n), "source": f"{r} {h}", "reference": r, "hypothesis": h}
        for n, (h, r) in enumerate(drawn)
    ]
    random.Random(4).shuffle(records)  # scores do not depend on the order of lines
    for name, some in (("x.jsonl", records[:700]), ("y.jsonl", records[700:])):
        Path(name).write_text("".join(json.dumps(one) + "\n" for one in some))
    system = outputs.read_several("[xy].jsonl", [Path("x.jsonl"), Path("y.jsonl")])
    metrics = catalogue.find(["rouge", "bleu", "cider", "repetition", "mover:encoder"])
    kill = Killer(256)
    done = []

    def advance(items):
        done.append(items)
        kill(sum(done) // 2)  # items are passed over twice

    spread = OnCluster(cluster.engine(nodes.address), folder)
    expected = score.reduce(system, metrics)
    found = score.reduce(system, metrics, progress=advance, spread=spread)
    assert kill.killed
    assert sum(done) == 2 * len(system) + len(system)  # and once here, for CIDEr
    for metric in metrics:
        assert np.array_equal(found.of(metric), expected.of(metric)), metric.name
    assert significance.intervals(found, metrics, 50) == significance.intervals(
        expected, metrics, 50
    )
    assert 10 < found.value(metrics[-1]) < 90
    # what is done is not done again
    assert score.reduce(system, metrics, spread=OnCluster(nobody, folder)).value(
        metrics[-1]
    ) == found.value(metrics[-1])
    spread.clear()
    assert not list(folder.glob(".scores*"))
    for name, one in (("items-here", expected), ("items-there", found)):
        Path(name).mkdir()
        write_items(one, metrics, Path(name))
    assert same(folder / "items-here", folder / "items-there") == ["x.jsonl", "y.jsonl"]


def nobody(todo, advance):
    assert not todo
    return iter(())


def test_the_same_callable_in_map_batches(folder, nodes):
    auditor = dwindle.Auditor(folder / "model", batch=2)
    rows = [
        {"source": item.source, "hypothesis": item.hypothesis, "n": n}
        for n, item in enumerate(Run(folder / "b.parquet").each())
    ]
    ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
    try:
        found = (
            ray.data.from_items(rows, override_num_blocks=2)
            .map_batches(
                dwindle.Auditor,
                fn_constructor_kwargs={"model": folder / "model", "batch": 2},
                batch_size=32,
                compute=ray.data.ActorPoolStrategy(size=2),
                num_cpus=1,
            )
            .take_all()
        )
    finally:
        ray.shutdown()
    found.sort(key=lambda row: row["n"])
    expected = auditor({name: [row[name] for row in rows] for name in rows[0]})
    assert [row["alarm"] for row in found] == expected["alarm"]
    assert [row["source"] for row in found] == expected["source"]
    assert [[span["text"] for span in row["spans"]] for row in found] == [
        [span["text"] for span in spans] for spans in expected["spans"]
    ]


def test_what_is_wrong_with_an_input_is_one_sentence(folder, nodes, monkeypatch):
    monkeypatch.chdir(folder)
    files = shards(folder, "wrong")
    (folder / "a.jsonl").write_text("no JSON\n" * 200)
    with pytest.raises(ValueError, match=r"a.jsonl, line \d+ is not JSON"):
        bulk.audit(files, cluster.engine(nodes.address))
    with pytest.raises(ValueError, match="there is no Ray cluster at localhost"):
        list(cluster.engine("localhost:1")([(files[0], 0)], lambda items: None))
