"""See's pointer-generator, in TensorFlow's layout and in the port's: each with its own twin, then
with each other."""

import pytest
import torch

from dwindle.checkpoints.opening import opened
from dwindle.generation.settings import DecodingSettings
from tests.checkpoints import bundle
from tests.checkpoints.kit import Draw, python2, same_beams, same_rows, searched

WORDS = ["the", ".", "cat", "sat", '"', "mat", "dog"]
V, H, E = 4 + len(WORDS), 5, 4
UNK, START, STOP = 0, 2, 3
SETTINGS = DecodingSettings(beams=3, max_length=12, min_length=3, length_norm="average", cut="last")
SOURCES = ["the cat sat zork .", "dog mat the the", 'zork " ork the .']
LSTMS = {"fw": "", "bw": "_reverse"}
DECODER = "seq2seq/decoder/attention_decoder"


def tensorflow(draw, coverage, old=False, sharp=False):
    """The variables of a training of See's code, its optimiser's among them; ``sharp``: outputs
    that vary more."""
    kernel, bias = ("weights", "biases") if old else ("kernel", "bias")
    linears = {"": (E + 2 * H, E), "/Attention": (2 * H, 2 * H), "/calculate_pgen": (4 * H + E, 1)}
    w = {
        "seq2seq/embedding/embedding": draw(V, E),
        "seq2seq/output_projection/w": draw(H, V),
        "seq2seq/output_projection/v": draw(V),
        f"{DECODER}/W_h": draw(1, 1, 2 * H, 2 * H),
        f"{DECODER}/v": draw(2 * H, by=2),
        f"{DECODER}/lstm_cell/{kernel}": draw(E + H, 4 * H),
        f"{DECODER}/lstm_cell/{bias}": draw(4 * H),
    }
    for name, shape in {**linears, "/AttnOutputProjection": (3 * H, H)}.items():
        w |= {
            f"{DECODER}{name}/Linear/Matrix": draw(*shape),
            f"{DECODER}{name}/Linear/Bias": draw(shape[1]),
        }
    for state in "ch":
        w[f"seq2seq/reduce_final_st/w_reduce_{state}"] = draw(2 * H, H)
        w[f"seq2seq/reduce_final_st/bias_reduce_{state}"] = draw(H)
    for way in LSTMS:
        w[f"seq2seq/encoder/bidirectional_rnn/{way}/lstm_cell/{kernel}"] = draw(E + H, 4 * H)
        w[f"seq2seq/encoder/bidirectional_rnn/{way}/lstm_cell/{bias}"] = draw(4 * H)
    if coverage:
        w[f"{DECODER}/coverage/w_c"] = draw(1, 1, 1, 2 * H)
    if sharp:
        for name in (
            "seq2seq/embedding/embedding",
            "seq2seq/output_projection/w",
            f"{DECODER}/lstm_cell/{kernel}",
        ):
            w[name] *= 4
        w["seq2seq/output_projection/v"][STOP] += 2
    slots = {f"{name}/Adagrad": value for name, value in w.items()}
    return w, {**w, **slots, "global_step": torch.tensor(238410)}


def cell(w, name, x, h, c):
    """TensorFlow's LSTMCell: input, candidate, forget (and 1), output."""
    kernel, bias = (
        w.get(f"{name}/{new}", w.get(f"{name}/{old}"))
        for new, old in (("kernel", "weights"), ("bias", "biases"))
    )
    i, j, f, o = (torch.cat([x, h]) @ kernel + bias).chunk(4)
    c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(j)
    return torch.sigmoid(o) * torch.tanh(c), c


def linear(w, name, *inputs):
    return (
        torch.cat(inputs) @ w[f"{DECODER}{name}/Linear/Matrix"] + w[f"{DECODER}{name}/Linear/Bias"]
    )


def told(w, ids, extended, read):
    """attention_decoder.py while training, for one source: log P of the words (T, W), in See's
    numbers."""
    words = w["seq2seq/embedding/embedding"]
    passes = []
    for way, order in (("fw", range(len(ids))), ("bw", reversed(range(len(ids))))):
        h = c = torch.zeros(H)
        states = [h] * len(ids)
        for i in order:
            h, c = cell(
                w, f"seq2seq/encoder/bidirectional_rnn/{way}/lstm_cell", words[ids[i]], h, c
            )
            states[i] = h
        passes.append((torch.stack(states), h, c))
    memory = torch.cat([passes[0][0], passes[1][0]], 1)
    p = "seq2seq/reduce_final_st"
    h = torch.relu(
        torch.cat([passes[0][1], passes[1][1]]) @ w[f"{p}/w_reduce_h"] + w[f"{p}/bias_reduce_h"]
    )
    c = torch.relu(
        torch.cat([passes[0][2], passes[1][2]]) @ w[f"{p}/w_reduce_c"] + w[f"{p}/bias_reduce_c"]
    )
    context, coverage, rows = torch.zeros(2 * H), torch.zeros(len(ids)), []
    for word in read:
        x = linear(w, "", words[word if word < V else UNK], context)
        h, c = cell(w, f"{DECODER}/lstm_cell", x, h, c)
        features = memory @ w[f"{DECODER}/W_h"][0, 0] + linear(w, "/Attention", c, h)
        if f"{DECODER}/coverage/w_c" in w:
            features = features + coverage[:, None] * w[f"{DECODER}/coverage/w_c"][0, 0, 0]
        attention = (torch.tanh(features) @ w[f"{DECODER}/v"]).softmax(0)
        coverage = coverage + attention
        context = attention @ memory
        p_gen = torch.sigmoid(linear(w, "/calculate_pgen", context, c, h, x))
        output = linear(w, "/AttnOutputProjection", h, context)
        vocabulary = (
            output @ w["seq2seq/output_projection/w"] + w["seq2seq/output_projection/v"]
        ).softmax(0)
        mixed = torch.cat([p_gen * vocabulary, torch.zeros(max(max(extended) + 1 - V, 0))])
        for i, id in enumerate(extended):
            mixed[id] = mixed[id] + (1 - p_gen[0]) * attention[i]
        rows.append(mixed.log())
    return torch.stack(rows)


def ported(w):
    """The same model in atulkum's layout: hidden before cell, context before word, two biases."""

    def swapped(name, *order):
        matrix = w[f"{DECODER}{name}/Linear/Matrix"]
        return torch.cat([matrix[part] for part in order]).T

    def lstm(name, size, suffix):
        kernel, bias = w[f"{name}/kernel"].T, w[f"{name}/bias"]
        i, j, f, o = kernel.chunk(4)
        kernel = torch.cat([i, f, j, o])
        i, j, f, o = bias.chunk(4)
        bias = torch.cat([i, f + 1, j, o])
        half = bias / 3
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        parts = (kernel[:, :size], kernel[:, size:], half, bias - half)
        return {
            f"lstm.{n}_l0{suffix}": part.contiguous() for n, part in zip(names, parts, strict=True)
        }

    encoder = {
        "embedding.weight": w["seq2seq/embedding/embedding"],
        "W_h.weight": w[f"{DECODER}/W_h"][0, 0].T,
    }
    for way, suffix in LSTMS.items():
        encoder |= lstm(f"seq2seq/encoder/bidirectional_rnn/{way}/lstm_cell", E, suffix)
    reduce = {}
    for state in "ch":
        reduce[f"reduce_{state}.weight"] = w[f"seq2seq/reduce_final_st/w_reduce_{state}"].T
        reduce[f"reduce_{state}.bias"] = w[f"seq2seq/reduce_final_st/bias_reduce_{state}"]
    hidden, twice = slice(H, 2 * H), slice(0, 2 * H)
    decoder = {
        "embedding.weight": encoder["embedding.weight"],
        "attention_network.v.weight": w[f"{DECODER}/v"][None],
        "attention_network.decode_proj.weight": swapped("/Attention", hidden, slice(0, H)),
        "x_context.weight": swapped("", slice(E, E + 2 * H), slice(0, E)),
        "p_gen_linear.weight": swapped(
            "/calculate_pgen", twice, slice(3 * H, 4 * H), slice(2 * H, 3 * H), slice(4 * H, None)
        ),
        "out1.weight": w[f"{DECODER}/AttnOutputProjection/Linear/Matrix"].T,
        "out2.weight": w["seq2seq/output_projection/w"].T,
        "out2.bias": w["seq2seq/output_projection/v"],
        **lstm(f"{DECODER}/lstm_cell", E, ""),
    }
    biases = {
        "attention_network.decode_proj": "/Attention",
        "x_context": "",
        "p_gen_linear": "/calculate_pgen",
        "out1": "/AttnOutputProjection",
    }
    decoder |= {
        f"{theirs}.bias": w[f"{DECODER}{name}/Linear/Bias"] for theirs, name in biases.items()
    }
    if f"{DECODER}/coverage/w_c" in w:
        decoder["attention_network.W_c.weight"] = w[f"{DECODER}/coverage/w_c"][0, 0].T
    state = {
        "iter": 5,
        "encoder_state_dict": encoder,
        "decoder_state_dict": decoder,
        "reduce_state_dict": reduce,
    }
    # Adagrad's state goes by the ids of parameters
    places = [140_250_000_000_000 + 8 * n for n in range(2)]
    adagrad = {place: {"step": 5, "sum": torch.ones(2)} for place in places}
    group = {"lr": 0.15, "initial_accumulator_value": 0.1, "params": places}
    return {**state, "optimizer": {"state": adagrad, "param_groups": [group]}, "current_loss": 2.5}


def write(folder, layout, coverage=True, old=False, seed=6, sharp=False):
    """A folder in either layout; the variables in TensorFlow's."""
    w, stored = tensorflow(Draw(seed), coverage, old, sharp)
    if layout == "tensorflow":
        bundle.write(folder / "model-238410", stored)
    else:
        python2(ported(w), folder / "model_5_1538.pt")
    (folder / "vocab").write_text(
        "".join(f"{word} {9 - n}\n" for n, word in enumerate(WORDS)) + "beyond 1\n"
    )
    return w


def numbers(text):
    """See's ids, and those with the words outside the vocabulary behind it."""
    words, oov = text.split(), []
    ids = [4 + WORDS.index(word) if word in WORDS else UNK for word in words]
    for word, id in zip(words, ids, strict=True):
        if id == UNK and word not in oov:
            oov.append(word)
    return ids, [
        V + oov.index(word) if id == UNK else id for word, id in zip(words, ids, strict=True)
    ]


def ours(rows):
    """(T, W) from See's order of words to ours: padding and unknown change places."""
    return rows[:, [1, 0, *range(2, rows.shape[1])]]


@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize("layout", ["tensorflow", "port"])
def test_the_twins_numbers(layout, coverage, tmp_path):
    w = write(tmp_path, layout, coverage)
    found = opened(tmp_path)
    assert found.model.config.coverage == coverage
    batch = found.codec.collate([found.codec.encode(source) for source in SOURCES])
    read = torch.tensor([[2, 6, 11, 5], [2, 10, 4, 4], [2, 12, 4, 11]])
    sources = [numbers(source) for source in SOURCES]
    rows = [ours(told(w, *source, r)) for source, r in zip(sources, read.tolist(), strict=True)]
    same_rows(found.model(**batch, decoder_input_ids=read).logits, rows)
    best = [searched(lambda h, s=s: ours(told(w, *s, h)), SETTINGS, START, STOP) for s in sources]
    same_beams(found.model, batch, best, SETTINGS)


def test_names_of_tensorflow_1_0(tmp_path):
    write(tmp_path, "tensorflow", old=True)
    (tmp_path / "new").mkdir()
    write(tmp_path / "new", "tensorflow")
    one, two = (
        dict(opened(folder).model.named_parameters()) for folder in (tmp_path, tmp_path / "new")
    )
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_words(tmp_path):
    """Those of See's file, or of the table that it writes for TensorBoard."""
    write(tmp_path, "tensorflow")
    codec = opened(tmp_path / "model-238410").codec  # as TensorFlow names it
    assert codec.vocabulary.words[4:] == WORDS
    (tmp_path / "vocab").unlink()
    lines = ["[UNK]", "[PAD]", "[START]", "[STOP]", *(word.replace('"', '""""') for word in WORDS)]
    (tmp_path / "vocab_metadata.tsv").write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    assert opened(tmp_path).codec.vocabulary.words[4:] == WORDS
    batch = codec.collate([codec.encode("the cat", "the cat .\nzork sat")])
    assert batch["labels"].tolist() == [[4, 6, 5, 1, 7, 3]]
    assert codec.decode(torch.tensor([[2, 4, 6, 5, 4, 7, 5, 3]]), batch) == ["the cat .\nthe sat ."]


def test_what_is_missing(tmp_path):
    write(tmp_path, "tensorflow")
    (tmp_path / "vocab").write_text("the 3\n")
    with pytest.raises(ValueError, match="has 1 words, but the model 7"):
        opened(tmp_path)
    (tmp_path / "vocab").unlink()
    with pytest.raises(ValueError, match=r"has no vocab or .*the vocabulary"):
        opened(tmp_path)
    _, stored = tensorflow(Draw(6), True)
    del stored[f"{DECODER}/v"]
    bundle.write(tmp_path / "model-238410", stored)
    with pytest.raises(
        ValueError, match="has no seq2seq/decoder/attention_decoder/v: it is of another version"
    ):
        opened(tmp_path)
