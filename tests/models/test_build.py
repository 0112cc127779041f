"""From settings to models, into folders and back; published checkpoints in their own formats."""

import shutil

import pytest
import torch
from torch import Tensor

import dwindle
from dwindle.attaching.handle import handle_of
from dwindle.models import build as building
from dwindle.models.build import build, load, put_rule, save
from dwindle.models.settings import ModelSettings
from dwindle.models.subword import SENTENCE
from tests.models.library_kit import PAIRS, bart, bert, built, marian, spread, t5

KINDS = ("transformer", "bart", "bertsum", "pointer-generator")


def loss(model, codec) -> Tensor:
    batch = codec.collate([codec.encode(*pair) for pair in PAIRS[:3]])
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        labels = batch.pop("labels")
        read = model.prepare_decoder_input_ids_from_labels(labels)
        logits = model.eval()(**batch, decoder_input_ids=read).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return model.eval()(**batch).loss


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_with_its_rule(kind, tmp_path):
    model, codec = built(kind, rule="dydim:log,power(0.5)")
    spread(model)
    save(model, codec, tmp_path / "a" / "model")
    again, its_codec = load(tmp_path / "a" / "model")
    torch.testing.assert_close(loss(again, its_codec), loss(model, codec))
    put_rule(again, "plain", None)
    assert not torch.allclose(loss(again, its_codec), loss(model, codec), rtol=1e-4)
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["model"]


@pytest.mark.parametrize("kind", KINDS)
def test_from_pretrained_knows_every_model(kind, tmp_path):
    """One call for the library's and ours, as ``dwindle inspect`` advises."""
    model, codec = built(kind, rule="dim:log")
    save(model, codec, tmp_path)
    again = dwindle.from_pretrained(tmp_path)
    assert type(again) is type(model)
    torch.testing.assert_close(loss(again, codec), loss(model, codec))


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_is_a_model(kind):
    def weights(seed: int) -> list[Tensor]:
        torch.manual_seed(torch.randint(1000, ()).item())  # what was drawn before has no say
        return [p.clone() for p in built(kind, seed)[0].parameters()]

    first, again, other = weights(1), weights(1), weights(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("kind", "layers"), [("transformer", [1]), ("bertsum", [1]), ("bart", [0, 1])]
)
def test_the_papers_layers(kind, layers):
    """The last one; the last 7 of BART, or all of a smaller one."""
    assert handle_of(built(kind, rule="dim:log")[0]).layers == layers
    assert handle_of(built(kind, rule="dim:log", layers=2)[0]).layers == [0, 1]
    assert handle_of(built(kind, rule="plain")[0]) is None


def test_one_rule_replaces_another():
    model, _ = built("bart", rule="dim:log")
    put_rule(model, "dim:power(0.5)", 1)
    assert handle_of(model).settings.as_dict() == {"rule": "dim:power(0.5)", "layers": [1]}


@pytest.mark.parametrize("kind", ["transformer", "bertsum"])
def test_a_start_reads_further(kind, tmp_path):
    """Longer sources than its own: short texts read as before, long ones read at all."""
    model, codec = built(kind)
    save(model, codec, tmp_path / "model")
    further, its_codec = built(
        kind, start=str(tmp_path / "model"), source_length=700, target_length=30
    )
    assert (its_codec.source_length, its_codec.target_length) == (700, 30)
    torch.testing.assert_close(loss(further, its_codec), loss(model, codec))
    long = its_codec.collate([its_codec.encode("the cat sat .\n" * 300)])
    assert long["input_ids"].shape == (1, 700)
    further.eval().generate(**long, max_new_tokens=3)
    save(further, its_codec, tmp_path / "further")
    torch.testing.assert_close(loss(*load(tmp_path / "further")), loss(model, codec))


def test_bert_reads_further_with_its_last_position(tmp_path):
    model, _ = built("bertsum", start=str(bert(tmp_path / "bert")), source_length=40)
    table = model.encoder.embeddings.position_embeddings.weight
    assert len(table) == 40
    assert torch.equal(table[16:], table[15].expand(24, -1))


def test_bart_does_not_read_further(tmp_path):
    save(*built("bart"), tmp_path / "model")
    with pytest.raises(ValueError, match="512 positions"):
        built("bart", start=str(tmp_path / "model"), source_length=600)


def test_coverage_comes_to_a_trained_pointer_generator(tmp_path):
    model, codec = built("pointer-generator")
    save(model, codec, tmp_path / "model")
    covered, its_codec = built(
        "pointer-generator", start=str(tmp_path / "model"), coverage=True, source_length=60
    )
    more = {n for n, _ in covered.named_parameters()} - {n for n, _ in model.named_parameters()}
    assert more == {"decoder.covered.weight"}
    assert covered.config.coverage
    assert its_codec.source_length == 60
    old = dict(model.named_parameters())
    assert all(torch.equal(p, old[n]) for n, p in covered.named_parameters() if n in old)


def test_coverage_does_not_go_unnoticed(tmp_path):
    save(*built("pointer-generator", coverage=True), tmp_path / "model")
    with pytest.raises(ValueError, match=r"was trained with coverage: pass model\.coverage=true"):
        built("pointer-generator", start=str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("make", "kind"),
    [(bert, "bertsum"), (bart, "bart"), (marian, "transformer"), (t5, "transformer")],
)
def test_published_checkpoints(make, kind, tmp_path):
    """In the files that people have: read, a rule put in, saved as a run's model, loaded again."""
    if make is marian:
        pytest.importorskip("sentencepiece")
    folder = make(tmp_path / "published")
    model, codec = built(kind, start=str(folder), rule="dim:log")
    batch = codec.collate([codec.encode(*pair) for pair in PAIRS[:2]])
    texts = codec.decode(
        batch["labels"].masked_fill(batch["labels"] == -100, codec.tokenizer.pad_token_id), batch
    )
    # models of single lines know no other, and get no token more
    between = "\n" if make is bert else " "
    targets = [target.replace(" .", ".").replace("\n", between) for _, target in PAIRS[:2]]
    assert [text.replace(" .", ".") for text in texts] == targets
    assert int(batch["input_ids"].max()) < model.get_input_embeddings().num_embeddings
    assert SENTENCE not in codec.tokenizer.get_vocab()
    save(model, codec, tmp_path / "model")
    again, its_codec = load(tmp_path / "model")
    torch.testing.assert_close(loss(again, its_codec), loss(model, codec))
    labels = batch.pop("labels")
    output = again.generate(**batch, max_new_tokens=4, num_beams=2)
    # decoding starts as training
    assert output[0, 0] == again.prepare_decoder_input_ids_from_labels(labels)[0, 0]


def test_the_encoder_of_bertsum_is_the_published_one(tmp_path):
    import transformers as hf

    folder = bert(tmp_path / "bert")
    model, codec = built("bertsum", start=str(folder))
    batch = codec.collate([codec.encode(PAIRS[0][0][:40])])
    right = hf.BertModel.from_pretrained(folder).eval()
    assert batch["input_ids"].shape[1] <= 16
    torch.testing.assert_close(model.encoder.eval()(**batch)[0], right(**batch)[0])
    assert codec.separator == "[unused2]"
    assert model.config.decoder_start_token_id == codec.tokenizer.convert_tokens_to_ids("[unused0]")
    assert model.config.eos_token_id == codec.tokenizer.convert_tokens_to_ids("[unused1]")


def test_what_parts_the_words_of_bertsum(tmp_path):
    """PreSumm's spaces unless BERT's own way is named; a start keeps what it was saved with."""
    start = str(bert(tmp_path / "bert"))
    model, codec = built("bertsum", start=start)
    _, other = built("bertsum", start=start, wordpiece="bert")
    unknown = codec.tokenizer.unk_token_id
    cats = codec.tokenizer.convert_tokens_to_ids(["cat", "##s", "."])
    assert codec.encode("cats.")["input_ids"][1:-1] == [unknown]  # one word, and there is no ##.
    assert other.encode("cats.")["input_ids"][1:-1] == cats
    save(model, codec, tmp_path / "model")
    assert built("bertsum", start=str(tmp_path / "model"))[1].wordpiece == "spaces"
    with pytest.raises(
        ValueError, match=r"saved with wordpiece=spaces: leave model\.wordpiece out"
    ):
        built("bertsum", start=str(tmp_path / "model"), wordpiece="bert")
    with pytest.raises(ValueError, match="wordpiece is BertSum's, and this is a bart"):
        built("bart", wordpiece="spaces")


def test_a_checkpoint_of_another_model(tmp_path):
    save(*built("bart"), tmp_path / "model")
    with pytest.raises(
        ValueError,
        match="is a model of type bart, and a transformer starts from one of type marian",
    ):
        built("transformer", start=str(tmp_path / "model"))


def test_no_model_there(tmp_path, monkeypatch):
    for way in (lambda: load(tmp_path), lambda: built("bart", start=str(tmp_path))):
        with pytest.raises(ValueError, match=r"no config\.json"):
            way()
    bart(tmp_path / "published")
    with pytest.raises(ValueError, match="it may be the start of one"):
        load(tmp_path / "published")

    monkeypatch.setattr(building, "absence", lambda name, kind: "the hub has no such model")
    with pytest.raises(ValueError, match=r"no folder facebook/x, and the hub has no such model$"):
        built("bart", start="facebook/x")

    def unreachable(name):
        raise OSError("We couldn't connect to the hub.\nCheck your connection.")

    monkeypatch.setattr(building, "absence", lambda name, kind: None)
    monkeypatch.setattr(building.AutoConfig, "from_pretrained", unreachable)
    with pytest.raises(
        ValueError,
        match=r"facebook/x is not a folder, and could not be loaded .*: We couldn't connect to "
        r"the hub\.$",
    ):
        built("bart", start="facebook/x")


def test_lead_3_is_no_model():
    with pytest.raises(ValueError, match="no model to build"):
        build(ModelSettings(kind="lead-3"), lambda: iter(PAIRS), 1)


def test_what_cannot_be_saved_leaves_the_old_one(tmp_path, monkeypatch):
    model, codec = built("pointer-generator")
    save(model, codec, tmp_path / "model")
    before = sorted(p.name for p in (tmp_path / "model").iterdir())

    def full(folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(codec, "save_pretrained", full)
    with pytest.raises(OSError, match="No space"):
        save(model, codec, tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == before
    monkeypatch.undo()
    shutil.copytree(tmp_path / "model", tmp_path / ".model.writing")  # as a kill would leave it
    save(model, codec, tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("kind", ["pointer-generator", "transformer", "bertsum"])
def test_a_vocabulary_is_learnt_once_for_a_corpus(kind):
    settings = ModelSettings(
        kind=kind, size="tiny", vocabulary=300, source_length=40, target_length=20
    )
    learnt, codec = build(settings, lambda: iter(PAIRS), 1)
    model, kept = build(settings, lambda: iter(PAIRS), 1, corpus=f"pairs {kind}")
    again, _ = build(settings, lambda: pytest.fail("learnt again"), 1, corpus=f"pairs {kind}")
    assert all(kept.encode(*pair) == codec.encode(*pair) for pair in PAIRS)
    for one, two, three in zip(
        *(m.state_dict().values() for m in (learnt, model, again)), strict=True
    ):
        assert torch.equal(one, two)
        assert torch.equal(one, three)
