"""Transformers of fairseq in the layouts of 2018 and of today: the twin's numbers, the original's
pieces."""

import argparse
from collections import OrderedDict

import pytest
import torch

import dwindle
from dwindle.checkpoints.opening import bring, opened
from dwindle.models import build
from dwindle.models.build import load
from tests.checkpoints import fairseq_twin as twin
from tests.checkpoints.kit import BEAM, Draw, namespace, same_beams, same_rows

CODES = "#version: 0.2\nl o\nlo w</w>\nn e\ne r</w>\n"
SOURCE = ["low", "lo@@", "l@@", "w@@", "w", "er", "e@@", "n@@", "madeupword0000"]
TARGET = ["low", "er", "o@@", "w@@", "new"]
IDS = [[4, 5, 9, 8, 2], [6, 4, 2], [10, 7, 7, 4, 2]]


def settings(**more):
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 4}
    layers = {"encoder_layers": 2, "decoder_layers": 2}
    lengths = {"max_source_positions": 64, "max_target_positions": 64}
    languages = {"source_lang": "en", "target_lang": "de"}
    return namespace(**{**heads, **layers, **lengths, **languages, "dropout": 0.3, **more})


def old(weights):
    """As checkpoints of 2018 name and join them."""
    renamed = OrderedDict()
    numbers = {
        "encoder": {"self_attn_layer_norm": 0, "final_layer_norm": 1},
        "decoder": {"self_attn_layer_norm": 0, "encoder_attn_layer_norm": 1, "final_layer_norm": 2},
    }
    for name, value in weights.items():
        for norm, number in numbers[name.split(".")[0]].items():
            name = name.replace(f".{norm}.", f".layer_norms.{number}.")
        if ".q_proj." in name:
            joined = [weights[name.replace("q_proj", f"{x}_proj")] for x in "qkv"]
            renamed[name.replace("q_proj.", "in_proj_")] = torch.cat(joined)
        elif ".k_proj." not in name and ".v_proj." not in name:
            renamed[name] = value
    for part in ("encoder", "decoder"):
        renamed[f"{part}.embed_positions._float_tensor"] = torch.zeros(1)
    return renamed


def write(
    folder,
    vocabularies="joined",
    year=2018,
    drop=(),
    seed=4,
    ending=3.0,
    versions=None,
    normless=(),
    unused=False,
    **more,
):
    """The folder of a published model; the weights and settings that it was made of.

    ``versions`` are those of the encoder and decoder (those of the ``year`` by default; None: not
    stored); the parts ``normless`` have no norm after their last layer, or an ``unused`` one.
    """
    given = settings(**more)
    source, target = (SOURCE, SOURCE) if vocabularies == "joined" else (SOURCE, TARGET)
    weights = twin.weights(Draw(seed), given, 4 + len(source), 4 + len(target))
    if vocabularies == "joined":
        weights["decoder.embed_tokens.weight"] = weights["encoder.embed_tokens.weight"]
    if vocabularies == "untied":
        weights["decoder.embed_out"] = Draw(5)(4 + len(target), 8)
    spare = {}
    for part in normless:
        for kind in ("weight", "bias"):
            name = f"{part}.layer_norm.{kind}"
            spare[name] = weights.pop(name)
        for name, value in weights.items():
            if name.startswith(part) and ("out_proj" in name or "fc2" in name):
                value *= 0.01  # what no norm tames
    first = getattr(given, "decoder_normalize_before", False)
    last = "layers.1.fc2" if "decoder" in normless else "layer_norm"
    twin.ending(weights, f"decoder.{last if first else 'layers.1.final_layer_norm'}", ending)
    folder.mkdir(exist_ok=True)
    stored = old(weights) if year == 2018 else dict(weights)
    if unused:
        stored |= spare
    versions = versions or (2.0 if year == 2018 else 3.0,) * 2
    for part, version in zip(("encoder", "decoder"), versions, strict=True):
        if version is not None:
            stored[f"{part}.version"] = torch.tensor([version]).flatten()
    content = {"model": stored, "extra_state": {"epoch": 3}}
    if year == 2018:
        content["args"] = given
    else:
        content |= {"args": None, "cfg": {"_name": None, "model": given}}
    torch.save(content, folder / "model.pt", _use_new_zipfile_serialization=year != 2018)
    for language, words in (("en", source), ("de", target)):
        text = "".join(f"{word} {100 - n}\n" for n, word in enumerate(words))
        (folder / f"dict.{language}.txt").write_text(text)
    (folder / "bpecodes").write_text(CODES)
    for name in drop:
        (folder / name).unlink()
    return weights, given


FIRST = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def same_as_twin(folder, weights, given):
    """Log-probabilities and beams of the imported model are the twin's, in double precision."""
    weights = {name: value.double() for name, value in weights.items()}
    model = opened(folder).model.double()
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(i) for i in IDS], True, twin.PAD)
    batch = {"input_ids": ids, "attention_mask": (ids != twin.PAD).long()}
    read = torch.tensor([[2, 4, 8, 5], [2, 7, 1, 1], [2, 6, 6, 4]])
    lengths = (4, 2, 4)
    told = [
        twin.logits(weights, given, s, r[:n])
        for s, r, n in zip(IDS, read.tolist(), lengths, strict=True)
    ]
    same_rows(model(**batch, decoder_input_ids=read).logits, told)
    best = [twin.searched(lambda h, s=s: twin.logits(weights, given, s, h)) for s in IDS]
    same_beams(model, batch, best, BEAM)
    return model


@pytest.mark.parametrize("year", [2018, 2024])
@pytest.mark.parametrize("vocabularies", ["joined", "separate", "untied"])
@pytest.mark.parametrize("more", [{}, {**FIRST, "seed": 9}])
def test_the_twins_numbers(vocabularies, year, more, tmp_path):
    same_as_twin(tmp_path, *write(tmp_path, vocabularies, year, **more))


BOTH = ("encoder", "decoder")


@pytest.mark.parametrize(
    ("versions", "normless", "more"),
    [
        ((None, None), BOTH, {}),  # before August 2018
        ((1.0, 1.0), BOTH, {}),  # such a file, opened and saved again
        ((2.0, 2.0), (), {}),  # fairseq 0.6 to 0.8
        ((2.0, 2.0), ("decoder",), {}),
        ((3.0, 2.0), ("decoder",), {}),
        ((3.0, 3.0), (), {}),
        ((3.0, 3.0), ("decoder",), {"no_decoder_final_norm": True}),
        ((1.0, 3.0), ("encoder",), {}),
        ((None, 3.0), ("encoder",), {"unused": True}),
        ((3.0, 1.0), ("decoder",), {"unused": True}),
    ],
)
def test_a_version_says_whether_a_norm_follows_the_last_layer(versions, normless, more, tmp_path):
    """Norms before the parts of each layer, and no norm at the end, as fairseq opens old files."""
    how = {
        "versions": versions,
        "normless": normless,
        "seed": 9,
        "ending": 8.0 if "decoder" in normless else 3.0,
    }
    model = same_as_twin(tmp_path, *write(tmp_path, "untied", 2024, **FIRST, **how, **more))
    found = opened(tmp_path)
    said = f"without {''.join(normless)}.layer_norm.weight and "
    assert (said in found.about) == ("unused" in more)
    build.save(found.model, found.codec, tmp_path / "saved")
    again, _ = load(tmp_path / "saved")
    given = {"input_ids": torch.tensor(IDS[:1]), "decoder_input_ids": torch.tensor([[2, 4, 8]])}
    torch.testing.assert_close(again.double()(**given).logits, model(**given).logits)


@pytest.mark.parametrize(
    ("versions", "normless", "says"),
    [
        ((2.0, 2.0), ("encoder",), r"has no model\.encoder\.layer_norm\.(weight|bias)"),
        ((3.0, 3.0), ("decoder",), r"has no model\.decoder\.layer_norm\.(weight|bias)"),
        (([3.0, 1.0], 3.0), (), r"encoder\.version is not one number: get the file again"),
    ],
)
def test_a_version_that_contradicts_the_weights(versions, normless, says, tmp_path):
    """fairseq does not open these either."""
    write(tmp_path, "untied", 2024, **FIRST, versions=versions, normless=normless, seed=9)
    with pytest.raises(ValueError, match=says):
        opened(tmp_path)


def test_a_version_matters_only_where_norms_stand_first(tmp_path):
    same_as_twin(tmp_path, *write(tmp_path, "joined", 2024, versions=(None, None)))


def test_norms_first_with_a_rule(tmp_path):
    """Saved and loaded with a rule, such a model writes the same with a cache and without."""
    write(tmp_path, "separate", 2024, **FIRST, seed=9)
    model, codec = opened(tmp_path).model, opened(tmp_path).codec
    with pytest.warns(UserWarning, match=r"model\.pt was not trained with dydim"):
        dwindle.attach(model, "dydim:log,power(0.5)")
    build.save(model, codec, tmp_path / "saved")
    again, _ = load(tmp_path / "saved")
    batch = {"input_ids": torch.tensor(IDS[:1])}
    options = {"max_new_tokens": 12, "num_beams": 3, "do_sample": False}
    written = [
        m.generate(**batch, **options, use_cache=cached).tolist()
        for m in (model, again)
        for cached in (True, False)
    ]
    assert written[1:] == written[:1] * 3
    read = torch.tensor([[2, 4, 8, 5]])
    whole = model(**batch, decoder_input_ids=read)
    as_tuple = model(**batch, decoder_input_ids=read, return_dict=False)
    torch.testing.assert_close(as_tuple[0], whole.logits)
    dwindle.detach(model)
    assert not torch.allclose(model(**batch, decoder_input_ids=read).logits, whole.logits)


def test_a_text_is_cut_as_the_original_tools_cut_it(tmp_path):
    """By subword-nmt: low, ne@@ w@@ er, ne@@ l, x; of these the dictionary has no ne@@, l or x."""
    write(tmp_path)
    codec = opened(tmp_path).codec
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *SOURCE]
    read = [symbols[i] for i in codec.encode("low newer nel x", "low")["input_ids"]]
    assert read == ["low", "<unk>", "w@@", "er", "<unk>", "<unk>", "<unk>", "</s>"]
    assert codec.encode("low", "low er")["labels"] == [4, 9, 2]
    assert codec.decode(torch.tensor([[2, 7, 9, 5, 8, 2]]), {}) == ["wer low"]
    assert codec.encode("low </s>")["input_ids"].count(2) == 1  # written in the text it is no end


def test_a_target_has_its_own_vocabulary(tmp_path):
    write(tmp_path, "separate")
    codec = opened(tmp_path).codec
    # new: the codes cut it
    assert codec.encode("low er", "er new low")["labels"] == [5, 3, 3, 4, 2]
    assert codec.decode(torch.tensor([[2, 7, 5, 8, 2]]), {}) == ["wer new"]


UNSAID = {"source_lang": None, "target_lang": None}


def test_dictionaries_are_never_guessed(tmp_path):
    """Without a language pair, two dictionaries that differ could be either side's: the caller
    names them."""
    write(tmp_path, "separate", **UNSAID)
    says = (
        r"does not say its languages, .*dict\.de\.txt, dict\.en\.txt.*--source-lang and "
        r"--target-lang"
    )
    with pytest.raises(ValueError, match=says):
        opened(tmp_path)
    with pytest.raises(ValueError, match=says):
        opened(tmp_path, source_lang="en")
    codec = opened(tmp_path, "en", "de").codec
    assert codec.encode("low er", "er new low") == opened_separate(tmp_path).encode(
        "low er", "er new low"
    )
    with pytest.raises(ValueError, match=r"has no dict\.fr\.txt"):
        opened(tmp_path, "fr", "de")


def opened_separate(folder):
    write(folder / "said", "separate")
    return opened(folder / "said").codec


def test_one_dictionary_needs_no_languages(tmp_path):
    write(tmp_path, "joined", **UNSAID)
    found = opened(tmp_path)
    assert found.codec.encode("low er")["input_ids"] == [4, 9, 2]
    assert "?-?, joined" in found.about


def test_languages_of_the_task(tmp_path):
    """Settings since 2020 say the languages with the task, not with the model."""
    write(tmp_path, "separate", 2024, **UNSAID)
    content = torch.load(tmp_path / "model.pt", weights_only=False)
    content["cfg"]["task"] = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
    torch.save(content, tmp_path / "model.pt")
    found = opened(tmp_path)
    assert found.codec.encode("low", "er new")["labels"] == [5, 3, 3, 2]
    assert "en-de, separate" in found.about


def test_languages_that_contradict_the_file(tmp_path):
    write(tmp_path, "separate")
    with pytest.raises(ValueError, match="says source_lang=en, not de: leave --source-lang out"):
        opened(tmp_path, "de", "en")


def test_signs_that_moses_escapes(tmp_path, monkeypatch):
    """The dictionary has &apos; and &quot;, the texts ' and ": also where they are escaped
    already."""
    monkeypatch.setattr(f"{__name__}.SOURCE", [*SOURCE, "&apos;", "&quot;", "&amp;"])
    signs = ["&apos;", "&quot;", "&amp;"]
    pieces = [[*word[:-1], f"{word[-1]}</w>"] for word in signs]
    codes = dict.fromkeys(
        ("".join(word[:n]), word[n]) for word in pieces for n in range(1, len(word))
    )
    monkeypatch.setattr(f"{__name__}.CODES", CODES + "".join(f"{a} {b}\n" for a, b in codes))
    write(tmp_path)
    bring(tmp_path, tmp_path / "out")
    _, codec = load(tmp_path / "out")
    assert codec.encode("low ' & \"")["input_ids"] == [4, 13, 15, 14, 2]
    assert codec.encode("low &apos; &amp; &quot;")["input_ids"] == [4, 13, 15, 14, 2]
    assert codec.decode(torch.tensor([[2, 4, 13, 15, 14, 9, 2]]), {}) == ["low ' & \" er"]


def test_pieces_beyond_the_model_never_reach_it(tmp_path):
    write(tmp_path)
    found = opened(tmp_path)
    ids = found.codec.encode("newer lone nel ölo")["input_ids"]
    assert max(ids) < found.model.config.vocab_size


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"drop": ["dict.de.txt"]},
            r"has no dict\.de\.txt, the dictionary: put it beside model\.pt",
        ),
        ({"drop": ["bpecodes"]}, "has no bpecodes or .*the BPE codes"),
        ({"adaptive_softmax_cutoff": "10"}, "an adaptive softmax, which is not known here"),
        ({"decoder_learned_pos": True}, "learned positions"),
    ],
)
def test_what_is_missing_or_other(given, says, tmp_path):
    write(tmp_path, **given)
    with pytest.raises(ValueError, match=says):
        opened(tmp_path)


def test_a_dictionary_of_another_model(tmp_path):
    write(tmp_path)
    (tmp_path / "dict.en.txt").write_text("low 1\n")
    with pytest.raises(ValueError, match="makes 5 symbols, but the model has 13"):
        opened(tmp_path)
    (tmp_path / "dict.en.txt").write_bytes(b"l\xf6w 1\n")
    with pytest.raises(ValueError, match=r"dict\.en\.txt is not UTF-8: get it again"):
        opened(tmp_path)
    (tmp_path / "dict.en.txt").write_text("low\n")
    with pytest.raises(ValueError, match="line 1 is not a symbol and its count"):
        opened(tmp_path)


def test_a_layer_too_many(tmp_path):
    write(tmp_path)
    content = torch.load(tmp_path / "model.pt", weights_only=False)
    assert isinstance(content["args"], argparse.Namespace)
    content["model"]["decoder.layers.1.gate.weight"] = torch.zeros(3)
    torch.save(content, tmp_path / "model.pt")
    with pytest.raises(
        ValueError, match=r"has a model\.decoder\.layers\.1\.gate\.weight: it is of another version"
    ):
        opened(tmp_path)
