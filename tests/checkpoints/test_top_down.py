"""The Top-Down captioner: ``model.pth`` and the infos that Python 2 or 3 pickled."""

import pickle

import numpy as np
import pytest
import torch

from dwindle.checkpoints.opening import opened
from dwindle.generation.settings import DecodingSettings
from tests.checkpoints.kit import Draw, affine, namespace, same_beams, same_rows, searched

WORDS = ["a", "dog", ".", "runs", "UNK"]
V, D, H, E, A = 1 + len(WORDS), 3, 5, 4, 6
OURS = [None, 5, None, 0, 1, 2, 3, 4]
"""Their number of each of our words: pad, unk, start, end, a, dog, '.', runs."""
SETTINGS = DecodingSettings(beams=3, max_length=12, min_length=3, length_norm="none")


def write(folder, protocol=2, seed=8, sharp=False, **more):
    draw, w = Draw(seed), {}
    w["embed.0.weight"] = draw(V, E, by=1.0)
    for name, rows, columns in (
        *(("fc_embed.0", H, D), ("att_embed.0", H, D), ("logit", V, H), ("ctx2att", A, H)),
        *(("core.attention.h2att", A, H), ("core.attention.alpha_net", 1, A)),
    ):
        w |= draw.linear(name, rows, columns)
    w["logit.weight"] *= 3
    w["core.attention.alpha_net.weight"] *= 4
    for name, width in (("core.att_lstm", E + 2 * H), ("core.lang_lstm", 2 * H)):
        w |= {f"{name}.weight_ih": draw(4 * H, width), f"{name}.weight_hh": draw(4 * H, H)}
        w |= {f"{name}.bias_ih": draw(4 * H), f"{name}.bias_hh": draw(4 * H)}
    if sharp:  # outputs that vary more
        for name in ("embed.0", "core.lang_lstm", "core.att_lstm"):
            w |= {key: value * 3 for key, value in w.items() if key.startswith(name)}
        w["logit.bias"][[0, -1]] += 0.8  # ends, and unknown words
    folder.mkdir(exist_ok=True)
    torch.save(w, folder / "model.pth", _use_new_zipfile_serialization=False)
    torch.save({"state": {}}, folder / "optimizer.pth")
    opt = namespace(caption_model="topdown", seq_length=20, drop_prob_lm=0.5, use_bn=0, **more)
    infos = {
        "opt": opt,
        "vocab": {str(i): word for i, word in enumerate(WORDS, 1)},
        "best_val_score": np.float64(0.3),
    }
    (folder / "infos_xe.pkl").write_bytes(pickle.dumps(infos, protocol))
    return w


def told(w, regions, read):
    """AttModel.py and its TopDownCore for one image (S, D): log P (T, V), in their numbers."""

    def cell(name, x, h, c):
        gates = (
            w[f"{name}.weight_ih"] @ x
            + w[f"{name}.bias_ih"]
            + w[f"{name}.weight_hh"] @ h
            + w[f"{name}.bias_hh"]
        )
        i, f, g, o = gates.chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    mean = torch.relu(affine(w, "fc_embed.0", regions.mean(0)))
    values = torch.relu(affine(w, "att_embed.0", regions))
    keys = affine(w, "ctx2att", values)
    h1 = c1 = h2 = c2 = torch.zeros(H)
    rows = []
    for word in read:
        embedded = torch.relu(w["embed.0.weight"][word])
        h1, c1 = cell("core.att_lstm", torch.cat([h2, mean, embedded]), h1, c1)
        scores = affine(
            w, "core.attention.alpha_net", torch.tanh(keys + affine(w, "core.attention.h2att", h1))
        )[:, 0]
        h2, c2 = cell("core.lang_lstm", torch.cat([scores.softmax(0) @ values, h1]), h2, c2)
        rows.append(affine(w, "logit", h2).log_softmax(0))
    return torch.stack(rows)


def ours(w, regions, read):
    """The same for our words: those that are never written have no probability."""
    rows = told(w, regions, [OURS[i] or 0 for i in read])
    never = torch.full_like(rows[:, 0], -1e9)
    return torch.stack([never if i is None else rows[:, i] for i in OURS], 1)


@pytest.mark.parametrize("protocol", [0, 2])
def test_the_twins_numbers(protocol, tmp_path):
    w = write(tmp_path, protocol)
    found = opened(tmp_path)
    images = [Draw(n)(size, D, by=2.0) for n, size in enumerate((4, 6, 5))]
    batch = found.codec.collate([found.codec.encode(image.numpy()) for image in images])
    read = torch.tensor([[2, 4, 5, 7], [2, 6, 1, 4], [2, 7, 7, 5]])
    rows = [ours(w, image, r) for image, r in zip(images, read.tolist(), strict=True)]
    logits = found.model(**batch, decoder_input_ids=read).logits.log_softmax(-1)
    same_rows(logits.clamp(min=-1e3), [row.clamp(min=-1e3) for row in rows])
    best = [searched(lambda h, i=i: ours(w, i, h), SETTINGS, 2, 3) for i in images]
    same_beams(found.model, batch, best, SETTINGS)


def test_words_and_settings(tmp_path):
    write(tmp_path)
    found = opened(tmp_path)
    assert found.codec.vocabulary.words[4:] == ["a", "dog", ".", "runs"]
    assert (found.codec.width, found.codec.target_length) == (D, 20)
    assert found.codec.decode(torch.tensor([[2, 4, 5, 7, 6, 3]]), {}) == ["a dog runs ."]
    assert found.model.config.dropout == 0.5


def test_what_is_missing_or_other(tmp_path):
    write(tmp_path, use_bn2=1)
    infos = pickle.loads((tmp_path / "infos_xe.pkl").read_bytes())
    infos["vocab"] = {"1": "a", "2": "dog"}
    (tmp_path / "infos_xe.pkl").write_bytes(pickle.dumps(infos))
    with pytest.raises(ValueError, match="has 5 words, but its infos 2"):
        opened(tmp_path)
    infos["vocab"] = ["a"]
    (tmp_path / "infos_xe.pkl").write_bytes(pickle.dumps(infos))
    with pytest.raises(ValueError, match="has no vocabulary"):
        opened(tmp_path)
    infos["opt"].use_bn = 1
    infos["vocab"] = {"1": "a"}
    (tmp_path / "infos_xe.pkl").write_bytes(pickle.dumps(infos))
    with pytest.raises(ValueError, match="batch norms"):
        opened(tmp_path)
    (tmp_path / "infos_xe.pkl").unlink()
    with pytest.raises(
        ValueError, match=r"has no infos\*\.pkl or .*the settings and the vocabulary"
    ):
        opened(tmp_path)
