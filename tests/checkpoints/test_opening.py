"""Whatever a path names, as a folder that every other verb takes; or one sentence, and nothing
written."""

import pytest
import torch

from dwindle.checkpoints.opening import FORMATS, bring, checkpoint
from dwindle.models import build
from dwindle.models.build import ModelSettings
from dwindle.models.opened import opened as looked_at
from tests.checkpoints import (
    test_fairseq_bart,
    test_fairseq_transformer,
    test_presumm,
    test_see,
    test_top_down,
)

WRITERS = {
    "transformer": test_fairseq_transformer.write,
    "bart": test_fairseq_bart.write,
    "bertsum": test_presumm.write,
    "pointer-generator": lambda folder: test_see.write(folder, "tensorflow", coverage=False),
    "top-down": test_top_down.write,
}
TEXTS = ("low er cat ab", "low cat ab")


def source(kind):
    return torch.randn(4, test_top_down.D).numpy() if kind == "top-down" else TEXTS[0]


def loss(model, row):
    model.eval()
    if hasattr(model, "set_rule"):
        return model(**row).loss
    given = {name: value for name, value in row.items() if name != "labels"}
    logits = model(
        **given, decoder_input_ids=model.prepare_decoder_input_ids_from_labels(row["labels"])
    ).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), row["labels"].flatten())


@pytest.mark.parametrize("kind", WRITERS)
def test_a_folder_as_every_verb_takes_it(kind, tmp_path):
    """Loaded, looked at, and the start of a recipe's model with a rule: one row of numbers, one
    text."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    WRITERS[kind](theirs)
    found = bring(theirs, tmp_path / "ours")
    given = source(kind)
    batch = found.codec.collate([found.codec.encode(given)])
    right = found.model.generate(**batch, max_new_tokens=5)
    seen = looked_at(tmp_path / "ours")
    for model, codec in (build.load(tmp_path / "ours"), (seen.model, seen.codec)):
        again = codec.collate([codec.encode(given)])
        torch.testing.assert_close(model.eval().generate(**again, max_new_tokens=5), right)
        assert codec.decode(right, again) == found.codec.decode(right, batch)
    settings = ModelSettings(
        kind=kind, start=str(tmp_path / "ours"), rule="dim:log", source_length=20, target_length=8
    )
    model, codec = build.build(settings, lambda: [], 1)
    row = codec.collate([codec.encode(given, TEXTS[1])])
    loss(model, row).backward()
    build.save(model, codec, tmp_path / "trained")
    again, _ = build.load(tmp_path / "trained")
    torch.testing.assert_close(loss(again, row), loss(model, row))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ours", "theirs", "trained"]


def test_no_checkpoint_is_of_two_kinds(tmp_path):
    for kind, write in WRITERS.items():
        folder = tmp_path / kind
        folder.mkdir()
        write(folder)
        assert sum(form.fits(checkpoint(folder)) for form in FORMATS) == 1


def refused(path, tmp_path, says):
    with pytest.raises(ValueError, match=says) as caught:
        bring(path, tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_names_that_promise_what_is_not_there(tmp_path):
    folder = tmp_path / "in"
    test_fairseq_transformer.write(folder)
    whole = torch.load(folder / "model.pt", weights_only=False)
    whole["args"].encoder_attention_heads = "many"
    torch.save(whole, folder / "model.pt")
    refused(folder, tmp_path, "looks like a Transformer of fairseq, but is not as that should be")
    whole["model"] = dict.fromkeys(whole["model"], 3.5)
    torch.save(whole, folder / "model.pt")
    refused(folder, tmp_path, "looks like a Transformer of fairseq, but is not as that should be")


def test_what_cannot_be_opened(tmp_path):
    folder = tmp_path / "in"
    refused(folder, tmp_path, "there is no .*in: name a checkpoint's file, or the folder it is in")
    folder.mkdir()
    refused(folder, tmp_path, "has no file of weights")
    torch.save({"state_dict": {"conv.weight": torch.zeros(3)}}, folder / "a.pt")
    refused(
        folder,
        tmp_path,
        "is not a checkpoint of a known format: those are a Transformer of fairseq, .*captioner",
    )
    refused(tmp_path / "wmt16.tar.bz2", tmp_path, "is an archive: unpack it")
    torch.save([torch.zeros(3)], folder / "a.pt")
    refused(folder, tmp_path, "holds no weights by name")
    torch.save({}, folder / "b.pt")
    refused(folder, tmp_path, r"several files of weights \(a\.pt, b\.pt\): name one of them")
    (folder / "b.pt").unlink()
    test_fairseq_transformer.write(folder)
    whole = (folder / "model.pt").read_bytes()
    (folder / "model.pt").write_bytes(whole[: len(whole) // 2])
    refused(folder / "model.pt", tmp_path, "it is cut off")
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="is there already: name a new folder"):
        bring(folder, tmp_path / "out")
