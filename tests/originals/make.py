"""Golden outputs from the originals' own code: ``python -m tests.originals.make NAME CHECKOUT
[PYTHON]`` writes ``NAME.json``.

NAME is ``see``, ``see_port``, ``presumm``, ``captioner`` or ``fairseq``; CHECKOUT a work tree of
the repository that README.md names; PYTHON, for ``see`` and ``presumm``, one that has the libraries
of their time (``fairseq``, which is a library itself, takes PYTHON only). Nothing of theirs is kept
here but the numbers that it gave. Modules that they import and that do not matter for a search
(CUDA, loaders) are replaced by empty ones.
"""

import builtins
import functools
import importlib
import importlib.util
import json
import math
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from tests.checkpoints import test_presumm, test_see, test_top_down
from tests.originals import tiny

HERE = Path(__file__).parent


def module(name, **content):
    made = types.ModuleType(name)
    made.__dict__.update(content)
    sys.modules[name] = made
    return made


def source(name, file):
    """A module from a file, whatever its package is."""
    spec = importlib.util.spec_from_file_location(name, file)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


# See and PreSumm: all of their code as it is, run by a Python of its time. It is shown a folder.


def by(python, script, tiny_files, *checkout):
    """What ``script`` says when ``python`` runs it with a checkout, if it needs one, and a folder
    of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in tiny_files.items():
            content = content if isinstance(content, bytes) else content.encode()
            (Path(folder) / name).write_bytes(content)
        where = [Path(c).resolve() for c in checkout]
        subprocess.run([python, HERE / script, *where, folder], check=True)
        return json.loads((Path(folder) / "made.json").read_text())


def plain(weights):
    return {name: value.tolist() for name, value in weights.items()}


def see(checkout, python):
    articles = {
        seed: list(zip(map(test_see.numbers, tiny.articles(seed)), tiny.targets(seed), strict=True))
        for seed in tiny.SEEDS
    }
    weights = {
        f"{coverage}/{seed}": plain(
            test_see.tensorflow(test_see.Draw(seed), coverage, sharp=True)[0]
        )
        for coverage in (False, True)
        for seed in tiny.SEEDS
    }
    content = {
        "weights": weights,
        "articles": articles,
        "words": test_see.V,
        "sizes": {"hidden_dim": test_see.H, "emb_dim": test_see.E},
        "beam_size": tiny.BEAMS,
        "max_dec_steps": tiny.LONGEST,
        "min_dec_steps": tiny.SHORTEST,
        "target": tiny.TARGET,
    }
    return by(python, "old_see.py", {"tiny.json": json.dumps(content)}, checkout)


def presumm(checkout, python):
    weights = {
        seed: {
            name: value
            for name, value in plain(tiny.presumm(seed)).items()
            if not name.endswith((".mask", "pos_emb.pe"))  # which the model has itself
        }
        for seed in tiny.SEEDS
    }
    width, ffn = test_presumm.WIDTH, 12
    content = {
        "weights": weights,
        "texts": {seed: tiny.stories(seed) for seed in tiny.SEEDS},
        "beams": tiny.BEAMS,
        "shortest": tiny.SHORTEST,
        "longest": tiny.LONGEST,
        "settings": {
            **{"encoder": "bert", "max_pos": tiny.POSITIONS, "max_tgt_len": 140, "alpha": 0.95},
            **{"dec_layers": 2, "dec_hidden_size": width, "dec_heads": test_presumm.HEADS},
            **{"dec_ff_size": ffn, "dec_dropout": 0.2},
        },
        "limits": {
            **{"min_src_ntokens_per_sent": 0, "max_src_ntokens_per_sent": 200},
            **{"min_src_nsents": 1, "max_src_nsents": 100},
            **{"min_tgt_ntokens": 1, "max_tgt_ntokens": 140},
        },
        "bert": {
            **{"vocab_size_or_config_json_file": len(tiny.PIECES), "hidden_size": width},
            **{"num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": ffn},
            "max_position_embeddings": tiny.POSITIONS,
        },
    }
    files = {"tiny.json": json.dumps(content), "vocab.txt": "\n".join(tiny.PIECES) + "\n"}
    return by(python, "old_presumm.py", files, checkout)


def vocab():
    numbers = {"[UNK]": 0, "[PAD]": 1, "[START]": 2, "[STOP]": 3}
    return SimpleNamespace(word2id=numbers.get, size=lambda: test_see.V)


DATA = {"START_DECODING": "[START]", "STOP_DECODING": "[STOP]", "UNKNOWN_TOKEN": "[UNK]"}


# The port: its model and its search, both as they are.


def see_port(checkout):
    checkout, made = Path(checkout), {}
    for coverage in (False, True):
        sizes = {
            "vocab_size": test_see.V,
            "emb_dim": test_see.E,
            "hidden_dim": test_see.H,
            "use_gpu": False,
        }
        lengths = {
            "beam_size": tiny.BEAMS,
            "max_dec_steps": tiny.LONGEST,
            "min_dec_steps": tiny.SHORTEST,
        }
        inits = {"trunc_norm_init_std": 1e-4, "rand_unif_init_mag": 0.02}
        config = module(
            "data_util.config", **sizes, **lengths, **inits, pointer_gen=True, is_coverage=coverage
        )
        data = module("data_util.data", **DATA, Vocab=None)
        module("data_util", config=config, data=data)
        module("data_util.batcher", Batcher=None)
        module("data_util.utils", write_for_rouge=None, rouge_eval=None, rouge_log=None)
        builtins.xrange, builtins.reload = range, lambda module: module
        sys.setdefaultencoding = lambda name: None
        model = source("model", checkout / "training_ptr_gen" / "model.py")
        source("train_util", checkout / "training_ptr_gen" / "train_util.py")
        decode = source("decode", checkout / "training_ptr_gen" / "decode.py")
        for seed in tiny.SEEDS:
            state = test_see.ported(
                test_see.tensorflow(test_see.Draw(seed), coverage, sharp=True)[0]
            )
            searcher = object.__new__(decode.BeamSearch)
            searcher.vocab, searcher.model = vocab(), model.Model(is_eval=True)
            searcher.model.encoder.load_state_dict(state["encoder_state_dict"])
            searcher.model.decoder.load_state_dict(state["decoder_state_dict"])
            searcher.model.reduce_state.load_state_dict(state["reduce_state_dict"])
            for n, article in enumerate(tiny.articles(seed)):
                with torch.no_grad():
                    best = searcher.beam_search(port_batch(article))
                made[f"{coverage}/{seed}/{n}"] = [best.tokens, best.avg_log_prob]
    return made


def port_batch(article):
    """An article as often as there are beams, as the port's batcher makes it."""
    ids, extended = (np.array([x] * tiny.BEAMS) for x in test_see.numbers(article))
    return SimpleNamespace(
        enc_batch=ids,
        enc_padding_mask=np.ones(ids.shape),
        enc_lens=np.array([ids.shape[1]] * tiny.BEAMS),
        enc_batch_extend_vocab=extended,
        max_art_oovs=max(int(extended.max()) + 1 - test_see.V, 0),
    )


# The captioner: its model and its search, both as they are.


def captioner(checkout):
    checkout = Path(checkout)
    sys.path.insert(0, str(checkout))
    module("misc", utils=module("misc.utils"))
    package = module("models")
    package.__path__ = [str(checkout / "models")]
    builtins.reduce = functools.reduce
    torch.Tensor.cuda = lambda self, *_: self
    caption = importlib.import_module("models.CaptionModel")
    caption.reduce = functools.reduce
    attending = importlib.import_module("models.AttModel")
    made = {}
    for seed in tiny.SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            w = test_top_down.write(Path(folder), seed=seed, sharp=True)
        sizes = {
            "vocab_size": test_top_down.V - 1,
            "input_encoding_size": test_top_down.E,
            "rnn_size": test_top_down.H,
        }
        features = {
            "fc_feat_size": test_top_down.D,
            "att_feat_size": test_top_down.D,
            "att_hid_size": test_top_down.A,
        }
        opt = SimpleNamespace(
            **sizes, **features, num_layers=2, drop_prob_lm=0.5, seq_length=tiny.LONGEST, use_bn=0
        )
        model = attending.TopDownModel(opt).eval()
        model.load_state_dict(w)
        for n, regions in enumerate(tiny.images(seed)):
            image = regions.mean(0)[None], regions[None]
            target = tiny.paragraphs(seed)[n]
            with torch.no_grad():
                written = [
                    model(*image, None, opt=opt, mode="sample")
                    for opt in ({"beam_size": tiny.BEAMS}, {}, {"block_trigrams": 1})
                ]
                # a target stands between two zeros, its start and its end
                rows = model(*image, torch.tensor([[0, *target]]))[0]
            made[f"{seed}/{n}"] = [float(rows[t, i]) for t, i in enumerate(target)]
            for how, (sequence, scores) in zip(tiny.CAPTIONING, written, strict=True):
                made[f"{seed}/{n}/{how}"] = [sequence[0].tolist(), float(scores[0].sum())]
    return made


# fairseq: all of its code as it is, run by a Python of its time, which reads the kits' checkpoints.


def fairseq(python):
    files, kinds = {}, {}
    for kind, (kit, how) in tiny.FAIRSEQ.items():
        sources, targets = {}, {}
        for seed in tiny.SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                weights, given = kit.write(Path(folder), seed=seed, ending=tiny.ENDING, **how)
                files[f"{kind}-{seed}.pt"] = (Path(folder) / "model.pt").read_bytes()
            rows, words = (len(weights[f"{p}.embed_tokens.weight"]) for p in ("encoder", "decoder"))
            sources[seed] = tiny.sentences(seed, rows, kind == "bart")
            targets[seed] = tiny.sentences(100 + seed, words, kind == "bart")
        kinds[kind] = {
            **{"sources": sources, "targets": targets, "rows": [rows, words]},
            **{"settings": vars(given), "width": 8, "ffn": 12, "positions": 40},
            "shared": "decoder.embed_out" not in weights,
        }
    content = {
        **{"kinds": kinds, "penalties": tiny.PENALTIES, "beam_size": tiny.BEAMS},
        **{"max_len_b": tiny.LONGEST - 1, "min_len": tiny.SHORTEST},
    }
    return by(python, "old_fairseq.py", {"tiny.json": json.dumps(content), **files})


def main(name, *where):
    makers = {
        "see": see,
        "see_port": see_port,
        "presumm": presumm,
        "captioner": captioner,
        "fairseq": fairseq,
    }
    made = makers[name](*where)
    numbers = [x for row in made.values() for x in row if isinstance(x, float)]
    assert all(math.isfinite(x) for x in numbers)
    lines = ",\n".join(
        f"  {json.dumps(key)}: "
        + json.dumps([round(x, 5) if isinstance(x, float) else x for x in row])
        for key, row in made.items()
    )
    (HERE / f"{name}.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
