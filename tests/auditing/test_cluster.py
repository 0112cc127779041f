"""An audit on a real cluster of two nodes, with a worker killed in the middle: the bytes of one
process.

It is skipped where Ray is not installed, as in ``make test``: two nodes take half a minute to
start.
"""

import json
import os
import random
import signal

import datasets
import psutil
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'dwindle[ray]'")

import dwindle  # noqa: E402
from dwindle.auditing import bulk  # noqa: E402
from dwindle.bulk import cluster  # noqa: E402
from dwindle.bulk.shards import alone as here  # noqa: E402
from dwindle.runfiles.run import Run, findings_of  # noqa: E402
from tests.auditing import small  # noqa: E402

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
def folder(model, tokenizer, tmp_path_factory):
    """A saved model with its listeners, and a file of each kind."""
    folder = tmp_path_factory.mktemp("corpus")
    ears = dwindle.listeners(model, tokenizer, small.TEXTS)
    copies = vars(model).pop("generate")  # cannot be saved
    model.save_pretrained(folder / "model")
    model.generate = copies
    tokenizer.save_pretrained(folder / "model")
    ears.save(folder / "model")
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


def workers():
    """The processes of the cluster that hold a model."""
    own = psutil.Process().children(recursive=True)
    return [one for one in own if one.cmdline() and "MapWorker" in one.cmdline()[0]]


def test_a_killed_worker_changes_nothing(folder, nodes, monkeypatch):
    monkeypatch.chdir(folder)
    alone = bulk.audit(shards(folder, "alone"), here)
    killed = []

    def tell(stage, done, total):
        if done >= 64 and not killed:
            killed.append(workers()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    spread = bulk.audit(shards(folder, "spread"), cluster.engine(nodes.address), tell)
    assert killed
    assert spread == alone
    assert alone.alarmed > 20
    names = sorted(path.name for path in (folder / "alone").iterdir())
    assert len(names) == 4
    assert sorted(path.name for path in (folder / "spread").iterdir()) == names
    for name in names:
        assert (folder / "spread" / name).read_bytes() == (folder / "alone" / name).read_bytes()


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
