"""Golden outputs from the originals' own code: ``python -m tests.originals.make NAME CHECKOUT
[PYTHON]`` writes ``NAME.json``.

NAME is ``see``, ``see_port``, ``presumm``, ``captioner`` or ``fairseq``; CHECKOUT a work tree of
the repository that README.md names; PYTHON, for ``see`` and ``presumm``, one that has the libraries
of their time. Nothing of theirs is kept here but the numbers that it gave. Modules that they import
and that do not matter for a search (CUDA, loaders) are replaced by empty ones.
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

from tests.checkpoints import (
    fairseq_twin,
    test_fairseq_bart,
    test_fairseq_transformer,
    test_presumm,
    test_see,
    test_top_down,
)
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


def by(python, script, checkout, tiny_files):
    """What ``script`` says when ``python`` runs it with a checkout and a folder of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in tiny_files.items():
            (Path(folder) / name).write_text(content, encoding="utf-8")
        subprocess.run([python, HERE / script, checkout.resolve(), folder], check=True)
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
    return by(python, "old_see.py", checkout, {"tiny.json": json.dumps(content)})


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
    return by(python, "old_presumm.py", checkout, files)


def vocab():
    numbers = {"[UNK]": 0, "[PAD]": 1, "[START]": 2, "[STOP]": 3}
    return SimpleNamespace(word2id=numbers.get, size=lambda: test_see.V)


DATA = {"START_DECODING": "[START]", "STOP_DECODING": "[STOP]", "UNKNOWN_TOKEN": "[UNK]"}


# The port: its model and its search, both as they are.


def see_port(checkout):
    made = {}
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
            with torch.no_grad():
                sequence, scores = model(
                    regions.mean(0)[None],
                    regions[None],
                    None,
                    opt={"beam_size": tiny.BEAMS},
                    mode="sample",
                )
            made[f"{seed}/{n}"] = [sequence[0].tolist(), float(scores[0].sum())]
    return made


# fairseq: its search as it is; the model is tests/checkpoints/fairseq_twin.py, the equations of its
# modules in loops.


def fairseq(checkout):
    package = module("fairseq", utils=module("fairseq.utils"))
    package.__path__ = [str(checkout / "fairseq")]
    module("fairseq.data", data_utils=module("fairseq.data.data_utils"))
    module("fairseq.models", FairseqIncrementalDecoder=torch.nn.Module)
    module("fairseq.ngram_repeat_block", NGramRepeatBlock=None)
    source(
        "fairseq.token_generation_constraints",
        checkout / "fairseq" / "token_generation_constraints.py",
    )
    package.search = source("fairseq.search", checkout / "fairseq" / "search.py")
    generator = source("fairseq.sequence_generator", checkout / "fairseq" / "sequence_generator.py")

    class Twin(generator.EnsembleModel):
        def __init__(self, score):
            torch.nn.Module.__init__(self)
            self.score, self.models_size = score, 1

        def max_decoder_positions(self):
            return 1024

        def set_decoder_beam_size(self, size):
            pass

        def forward_encoder(self, net_input):
            return []

        def reorder_encoder_out(self, outs, order):
            return outs

        def reorder_incremental_state(self, states, order):
            pass

        def forward_decoder(self, tokens, outs, states, temperature=1.0):
            return torch.stack(
                [self.score(row)[-1].log_softmax(-1) for row in tokens.tolist()]
            ), None

    made = {}
    for kind, kit in (("transformer", test_fairseq_transformer), ("bart", test_fairseq_bart)):
        for seed in tiny.SEEDS:
            with tempfile.TemporaryDirectory() as folder:
                weights, given = kit.write(Path(folder), seed=seed, ending=tiny.ENDING)
            rows = len(weights["encoder.embed_tokens.weight"])
            dictionary = Dictionary(rows)
            first = torch.tensor([[0]]) if kind == "bart" else None
            for n, ids in enumerate(tiny.sentences(seed, rows, kind == "bart")):
                for penalty in (0.0, 0.6, 2.0):
                    score = functools.partial(fairseq_twin.logits, weights, given, ids)
                    lengths = {
                        "max_len_b": tiny.LONGEST - 1,
                        "min_len": tiny.SHORTEST,
                        "beam_size": tiny.BEAMS,
                    }
                    search = generator.SequenceGenerator(
                        Twin(score), dictionary, **lengths, len_penalty=penalty
                    )
                    sample = {"net_input": {"src_tokens": torch.tensor([ids])}}
                    best = search.generate([], sample, prefix_tokens=first)[0][0]
                    made[f"{kind}/{seed}/{n}/{penalty}"] = [
                        best["tokens"].tolist(),
                        float(best["score"]),
                    ]
    return made


class Dictionary:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def pad(self):
        return 1

    def eos(self):
        return 2

    def unk(self):
        return 3


def main(name, checkout, *python):
    makers = {
        "see": see,
        "see_port": see_port,
        "presumm": presumm,
        "captioner": captioner,
        "fairseq": fairseq,
    }
    made = makers[name](Path(checkout), *python)
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
