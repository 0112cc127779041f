"""See's own code, run by a Python of its time: ``python old_see.py CHECKOUT FOLDER``.

Needs Python 3.6 and TensorFlow 1.2; ``make.py`` starts it and has written FOLDER: ``tiny.json``
with sizes, weights and articles as ids. Writes ``made.json`` there, and for each set of weights the
checkpoint of a training session, with Adagrad's slots. Knows nothing of dwindle.
"""

import builtins
import json
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import numpy as np
import tensorflow as tf

CHECKOUT, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
TINY = json.loads((FOLDER / "tiny.json").read_text())
SIZES = dict(
    TINY["sizes"],
    rand_unif_init_mag=0.02,
    trunc_norm_init_std=1e-4,
    max_grad_norm=2.0,
    lr=0.15,
    adagrad_init_acc=0.1,
    cov_loss_wt=1.0,
    pointer_gen=True,
)
builtins.xrange = range  # of Python 2, for which the code was written

flags = tf.app.flags
flags.DEFINE_string("log_root", str(FOLDER), "")
flags.DEFINE_boolean("pointer_gen", True, "")
flags.DEFINE_boolean("coverage", False, "")
for name in ("beam_size", "max_dec_steps", "min_dec_steps"):
    flags.DEFINE_integer(name, TINY[name], "")
sys.path.insert(0, str(CHECKOUT))
sys.argv = sys.argv[:1]
# its data.py prints as Python 2 does; of it the search needs three names
data = ModuleType("data")
data.START_DECODING, data.STOP_DECODING, data.UNKNOWN_TOKEN = "[START]", "[STOP]", "[UNK]"
sys.modules["data"] = data

import beam_search  # noqa: E402
import model as see  # noqa: E402

Batch = namedtuple(
    "Batch",
    "enc_batch enc_lens enc_padding_mask enc_batch_extend_vocab max_art_oovs "
    "dec_batch target_batch dec_padding_mask",
)


class Vocab:
    def size(self):
        return TINY["words"]

    def word2id(self, word):
        return {"[UNK]": 0, "[PAD]": 1, "[START]": 2, "[STOP]": 3}[word]

    def write_metadata(self, file):
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text("")


def batch(article, rows, target):
    ids, extended = article
    oov = max(max(extended) + 1 - TINY["words"], 0)
    read = [t if t < TINY["words"] else 0 for t in [2, *target[:-1]]]
    return Batch(
        np.array([ids] * rows),
        np.array([len(ids)] * rows),
        np.ones([rows, len(ids)]),
        np.array([extended] * rows),
        oov,
        np.array([read] * rows),
        np.array([list(target)] * rows),
        np.ones([rows, len(read)]),
    )


def graph(mode, coverage, steps):
    """A new graph of See's model, and its session."""
    tf.reset_default_graph()
    flags.FLAGS.coverage = coverage
    rows = TINY["beam_size"] if mode == "decode" else 1
    given = dict(SIZES, mode=mode, coverage=coverage, batch_size=rows, max_dec_steps=steps)
    made = see.SummarizationModel(namedtuple("HParams", given)(**given), Vocab())
    made.build_graph()
    session = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
    session.run(tf.global_variables_initializer())
    return made, session


def fill(session, weights):
    own = {v.op.name: v for v in tf.trainable_variables()}
    assert set(own) == set(weights), set(own) ^ set(weights)
    for name, value in weights.items():
        own[name].load(np.array(value, np.float32), session)


def main():
    made = {}
    for coverage in (False, True):
        made_by = {seed: TINY["weights"][f"{coverage}/{seed}"] for seed in TINY["articles"]}
        net, session = graph("decode", coverage, 1)
        for seed, articles in TINY["articles"].items():
            fill(session, made_by[seed])
            for n, (article, _) in enumerate(articles):
                given = batch(article, TINY["beam_size"], [0])
                best = beam_search.run_beam_search(session, net, Vocab(), given)
                made[f"{coverage}/{seed}/{n}"] = [
                    [int(t) for t in best.tokens],
                    float(best.avg_log_prob),
                ]
        net, session = graph("train", coverage, TINY["target"])
        for seed, articles in TINY["articles"].items():
            fill(session, made_by[seed])
            for n, (article, target) in enumerate(articles):
                feed = net._make_feed_dict(batch(article, 1, target))
                made[f"{coverage}/{seed}/{n}"].append(float(session.run(net._loss, feed)))
            folder = FOLDER / f"{coverage}-{seed}"
            folder.mkdir()
            tf.train.Saver(max_to_keep=3).save(session, str(folder / "model"), 238410)
    (FOLDER / "made.json").write_text(json.dumps(made))


if __name__ == "__main__":
    main()
