"""Golden outputs from the originals' own code: ``python -m tests.originals.make NAME CHECKOUT``
writes ``NAME.json``.

NAME is ``see``, ``see_port``, ``captioner`` or ``fairseq``; CHECKOUT a work tree of the repository
that README.md names. Nothing of theirs is kept here but the numbers that it gave. Modules that they
import and that do not matter for a search (TensorFlow's flags, CUDA, loaders) are replaced by empty
ones.
"""

import builtins
import functools
import importlib
import importlib.util
import json
import math
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


# See: beam_search.py as it is. TensorFlow 1 does not install on today's Python, so a step of the
# decoder is written here from attention_decoder.py and model.py (decode_onestep): an oracle of our
# own for the step, the original for the search.


class Stepping:
    """``run_encoder`` and ``decode_onestep`` of See's model for one article."""

    def __init__(self, w, ids, extended):
        self.w, self.ids, self.extended = w, ids, extended

    def run_encoder(self, sess, batch):
        h, c, self.memory = encoded(self.w, self.ids)
        return self.memory, SimpleNamespace(c=c, h=h)

    def attend(self, h, c, coverage):
        """attention(): context vector, distribution, coverage."""
        w, p = self.w, test_see.DECODER
        features = self.memory @ w[f"{p}/W_h"][0, 0] + test_see.linear(w, "/Attention", c, h)
        if coverage is not None:
            features = features + coverage[:, None] * w[f"{p}/coverage/w_c"][0, 0, 0]
        spread = (torch.tanh(features) @ w[f"{p}/v"]).softmax(0)
        return spread @ self.memory, spread, None if coverage is None else coverage + spread

    def decode_onestep(
        self, sess, batch, latest_tokens, enc_states, dec_init_states, prev_coverage
    ):
        covered = f"{test_see.DECODER}/coverage/w_c" in self.w
        ids, scores, states, spreads, gates, coverages = [], [], [], [], [], []
        for token, state, before in zip(latest_tokens, dec_init_states, prev_coverage, strict=True):
            before = torch.as_tensor(before, dtype=torch.float32) if covered else None
            context, _, coverage = self.attend(state.h, state.c, before)  # initial_state_attention
            x = test_see.linear(self.w, "", self.w["seq2seq/embedding/embedding"][token], context)
            h, c = test_see.cell(self.w, f"{test_see.DECODER}/lstm_cell", x, state.h, state.c)
            context, spread, _ = self.attend(h, c, coverage)  # "don't allow coverage to update"
            row, gate = written(self.w, self.extended, x, h, c, context, spread)
            top = row.topk(2 * tiny.BEAMS)
            ids.append(top.indices.numpy())
            scores.append(top.values.log().numpy())
            states.append(SimpleNamespace(c=c, h=h))
            spreads.append(spread.tolist())
            gates.append(float(gate))
            coverages.append(None if coverage is None else coverage.tolist())
        return np.array(ids), np.array(scores), states, spreads, gates, coverages


def encoded(w, ids):
    words, passes = w["seq2seq/embedding/embedding"], []
    for way, order in (("fw", range(len(ids))), ("bw", reversed(range(len(ids))))):
        h = c = torch.zeros(test_see.H)
        states = [h] * len(ids)
        for i in order:
            h, c = test_see.cell(
                w, f"seq2seq/encoder/bidirectional_rnn/{way}/lstm_cell", words[ids[i]], h, c
            )
            states[i] = h
        passes.append((torch.stack(states), h, c))
    p = "seq2seq/reduce_final_st"
    h, c = (
        torch.relu(
            torch.cat([passes[0][n], passes[1][n]]) @ w[f"{p}/w_reduce_{s}"]
            + w[f"{p}/bias_reduce_{s}"]
        )
        for n, s in ((1, "h"), (2, "c"))
    )
    return h, c, torch.cat([passes[0][0], passes[1][0]], 1)


def written(w, extended, x, h, c, context, spread):
    """_calc_final_dist: P of the extended vocabulary, and p_gen."""
    gate = torch.sigmoid(test_see.linear(w, "/calculate_pgen", context, c, h, x))
    output = test_see.linear(w, "/AttnOutputProjection", h, context)
    vocabulary = (
        output @ w["seq2seq/output_projection/w"] + w["seq2seq/output_projection/v"]
    ).softmax(0)
    mixed = torch.cat([gate * vocabulary, torch.zeros(max(max(extended) + 1 - test_see.V, 0))])
    for i, id in enumerate(extended):
        mixed[id] = mixed[id] + (1 - gate[0]) * spread[i]
    return mixed, gate


def vocab():
    numbers = {"[UNK]": 0, "[PAD]": 1, "[START]": 2, "[STOP]": 3}
    return SimpleNamespace(word2id=numbers.get, size=lambda: test_see.V)


DATA = {"START_DECODING": "[START]", "STOP_DECODING": "[STOP]", "UNKNOWN_TOKEN": "[UNK]"}


def see(checkout):
    flags = {"beam_size": tiny.BEAMS, "max_dec_steps": tiny.LONGEST, "min_dec_steps": tiny.SHORTEST}
    flags = SimpleNamespace(FLAGS=SimpleNamespace(**flags))
    module("tensorflow", app=SimpleNamespace(flags=flags))
    module("data", **DATA)
    builtins.xrange = range
    search = source("beam_search", checkout / "beam_search.py")
    made = {}
    for coverage in (False, True):
        for seed in tiny.SEEDS:
            w, _ = test_see.tensorflow(test_see.Draw(seed), coverage, sharp=True)
            for n, article in enumerate(tiny.articles(seed)):
                ids, extended = test_see.numbers(article)
                batch = SimpleNamespace(enc_batch=np.zeros((tiny.BEAMS, len(ids))))
                best = search.run_beam_search(None, Stepping(w, ids, extended), vocab(), batch)
                made[f"{coverage}/{seed}/{n}"] = [
                    [int(t) for t in best.tokens],
                    float(best.avg_log_prob),
                ]
    return made


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


def main(name, checkout):
    made = {"see": see, "see_port": see_port, "captioner": captioner, "fairseq": fairseq}[name](
        Path(checkout)
    )
    assert all(math.isfinite(score) for _, score in made.values())
    lines = ",\n".join(
        f"  {json.dumps(key)}: [{ids}, {round(score, 5)}]" for key, (ids, score) in made.items()
    )
    (HERE / f"{name}.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
