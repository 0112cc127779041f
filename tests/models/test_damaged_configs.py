"""A saved model whose config.json does not fit its weights: one sentence."""

import json
import shutil

import pytest

from dwindle.checkpoints.opening import bring
from dwindle.models.opened import opened
from tests.checkpoints import test_fairseq_bart, test_fairseq_transformer, test_see


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    for name, write in (
        ("bart", test_fairseq_bart.write),
        ("fairseq", test_fairseq_transformer.write),
        ("see", lambda f: test_see.write(f, "tensorflow")),
    ):
        (folder / f"{name}-theirs").mkdir()
        write(folder / f"{name}-theirs")
        bring(folder / f"{name}-theirs", folder / name)
    return folder


def refused(saved, change, tmp_path, why):
    """Opening a copy of a saved model whose config has this ``change`` is refused in a sentence."""
    shutil.copytree(saved, tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(ValueError, match=why) as caught:
        opened(str(tmp_path / "model"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("bart", {"vocab_size": 50}),
        ("bart", {"d_model": 16}),
        ("bart", {"max_position_embeddings": 7}),
        ("bart", {"encoder_layers": 10**6}),
        ("bart", {"decoder_layers": -1}),
        ("bart", {"d_model": "x"}),
        ("bart", {"vocab_size": None}),
        ("see", {"vocab_size": 50}),
        ("see", {"hidden_size": 6}),
        ("see", {"hidden_size": "x"}),
        ("see", {"embedding_size": None}),
    ],
)
def test_a_config_that_does_not_fit(saved, kind, change, tmp_path):
    refused(saved / kind, change, tmp_path, r"complete saved model|which no model has")


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("bart", {"vocab_size": 10**9}),
        ("bart", {"max_position_embeddings": 10**9}),
        ("bart", {"encoder_layers": 900, "encoder_ffn_dim": 10**6}),
        ("see", {"hidden_size": 10**6}),
        ("fairseq", {"max_position_embeddings": 10**8}),
    ],
)
def test_a_config_that_claims_much(saved, kind, change, tmp_path):
    """Refused before the library takes memory for it."""
    refused(saved / kind, change, tmp_path, r"config\.json claims [\d,]+ bytes of weights")


def test_an_honest_config_is_not_suspected(saved):
    for kind in ("bart", "fairseq", "see"):
        assert opened(str(saved / kind)).model.num_parameters() > 0
