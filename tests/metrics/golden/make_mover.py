"""Makes ``mover.json``: values of the authors' own MoverScore.

Origin: ``moverscore.py`` of github.com/AIPHES/emnlp19-moverscore, run as it is with
``device = 'cuda'`` read as ``'cpu'`` and its solver ``pyemd`` 1.1.0. Of
``pytorch_pretrained_bert``, which no current PyTorch installs, the three names that it imports
stand here on top of `transformers`. The encoder is the random BERT of ``tests/metrics/movers.py``:
what is compared is the algorithm.

    python -m tests.metrics.golden.make_mover PATH/TO/moverscore.py > mover.json
"""

import json
import os
import sys
import tempfile
import types
from pathlib import Path

import torch
from tests.metrics import movers
from torch import nn
from transformers import BertModel, BertTokenizerFast


class Encoder(nn.Module):
    """``BertModel`` of the old package: all layers but the embeddings, and what is pooled."""

    def __init__(self, config):
        super().__init__()
        self.inner = BertModel.from_pretrained(config.folder)

    def forward(self, ids, segments, attention_mask, output_all_encoded_layers):
        assert output_all_encoded_layers
        found = self.inner(ids, attention_mask, segments, output_hidden_states=True)
        return list(found.hidden_states[1:]), found.pooler_output


class Pretrained(nn.Module):
    """``BertPreTrainedModel``."""

    def __init__(self, config):
        super().__init__()

    def init_bert_weights(self, module):
        """The weights are there already."""

    @classmethod
    def from_pretrained(cls, folder, labels):
        return cls(
            types.SimpleNamespace(folder=folder, hidden_size=movers.WIDTH, hidden_dropout_prob=0.1),
            labels,
        )


def authors(file: Path, folder: Path) -> types.ModuleType:
    """The authors' module over an encoder's folder."""
    old = types.ModuleType("pytorch_pretrained_bert")
    old.BertTokenizer, old.BertModel = BertTokenizerFast, Encoder
    modeling = types.ModuleType("pytorch_pretrained_bert.modeling")
    modeling.BertPreTrainedModel = Pretrained
    sys.modules |= {"pytorch_pretrained_bert": old, "pytorch_pretrained_bert.modeling": modeling}
    (folder / "MNLI_BERT.zip").touch()  # so that nothing is fetched
    os.environ["MOVERSCORE"] = str(folder)
    module = types.ModuleType("moverscore")
    sys.modules["moverscore"] = module
    code = file.read_text(encoding="utf-8").replace("device = 'cuda'\n", "device = 'cpu'\n")
    exec(compile(code, str(file), "exec"), module.__dict__)
    return module


def main() -> None:
    pairs = movers.pairs()
    hypotheses, references = [h for h, _ in pairs], [r for _, r in pairs]
    with tempfile.TemporaryDirectory() as folder:
        movers.write(Path(folder))
        theirs = authors(Path(sys.argv[1]), Path(folder))
        torch.set_num_threads(1)
        idfs = theirs.get_idf_dict(references, 1), theirs.get_idf_dict(hypotheses, 1)
        values = {}
        for stop in ((), movers.STOP):
            for n in (1, 2):
                found = theirs.word_mover_score(
                    references,
                    hypotheses,
                    *idfs,
                    stop_words=stop,
                    n_gram=n,
                    remove_subwords=True,
                    device="cpu",
                )
                values[f"mover{n}{'+stop' if stop else ''}"] = [
                    round(100 * float(value), 6) for value in found
                ]
    json.dump(
        {"origin": "AIPHES/emnlp19-moverscore, moverscore.py", "values": values},
        sys.stdout,
        indent=1,
    )
    print()


if __name__ == "__main__":
    main()
