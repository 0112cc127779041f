"""PreSumm's own code, run by a Python of its time: ``python old_presumm.py CHECKOUT FOLDER``.

Needs Python 3.6, torch 1.4 and pytorch_transformers 1.2; ``make.py`` starts it and has written
FOLDER: ``tiny.json`` with sizes, weights and texts, and ``vocab.txt``. Writes ``made.json`` there,
and for each seed the checkpoint that PreSumm's trainer saves, with optimisers that have taken a
step. Knows nothing of dwindle.
"""

import json
import sys
from argparse import Namespace
from pathlib import Path

import torch

CHECKOUT, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(CHECKOUT / "src"))

from models.predictor import Translator  # noqa: E402
from models.trainer import Trainer  # noqa: E402
from others.tokenization import BertTokenizer  # noqa: E402
from prepro.data_builder import BertData  # noqa: E402
from pytorch_transformers import BertConfig, BertModel  # noqa: E402
from translate.beam import GNMTGlobalScorer  # noqa: E402

from models import model_builder  # noqa: E402

TINY = json.loads((FOLDER / "tiny.json").read_text())
SYMBOLS = {"BOS": 1, "EOS": 2}


def settings(folder):
    return Namespace(
        **TINY["settings"],
        large=False,
        temp_dir="",
        finetune_bert=True,
        share_emb=False,
        use_bert_emb=False,
        visible_gpus="-1",
        optim="adam",
        lr_bert=0.0,
        lr_dec=0.0,
        beta1=0.9,
        beta2=0.999,
        max_grad_norm=0,
        warmup_steps_bert=1,
        warmup_steps_dec=1,
        model_path=str(folder),
        save_checkpoint_steps=1,
    )


def model(args, weights):
    model_builder.BertModel.from_pretrained = lambda *a, **k: BertModel(BertConfig(**TINY["bert"]))
    made = model_builder.AbsSummarizer(args, "cpu")
    given = {name: torch.tensor(value) for name, value in weights.items()}
    missing = set(made.load_state_dict(given, strict=False)[0])
    assert missing == {n for n in made.state_dict() if n.endswith((".mask", "pos_emb.pe"))}, missing
    return made.eval()


def data():
    """``BertData`` with the tiny vocabulary."""
    made = object.__new__(BertData)
    made.args = Namespace(**TINY["limits"])
    made.tokenizer = BertTokenizer(str(FOLDER / "vocab.txt"), do_lower_case=True)
    made.sep_token, made.cls_token, made.pad_token = "[SEP]", "[CLS]", "[PAD]"
    made.sep_vid, made.cls_vid = (made.tokenizer.vocab[t] for t in ("[SEP]", "[CLS]"))
    return made


def searcher(args, net, tokenizer, block):
    made = object.__new__(Translator)
    made.args = Namespace(**dict(vars(args), block_trigram=block))
    made.model, made.generator, made.vocab = net, net.generator, tokenizer
    made.start_token, made.end_token = SYMBOLS["BOS"], SYMBOLS["EOS"]
    made.global_scorer = GNMTGlobalScorer(args.alpha, length_penalty="wu")
    made.beam_size, made.min_length, made.max_length = (
        TINY[name] for name in ("beams", "shortest", "longest")
    )
    made.dump_beam = ""
    return made


def save(args, net):
    """As training does: both optimisers take a step (of rate 0), then the trainer saves."""
    optims = [
        model_builder.build_optim_bert(args, net, None),
        model_builder.build_optim_dec(args, net, None),
    ]
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    for optim in optims:
        optim.step()
    trainer = object.__new__(Trainer)
    trainer.model, trainer.args, trainer.optims = net, args, optims
    trainer._save(1)


def main():
    reading, made = data(), {}
    for seed, weights in TINY["weights"].items():
        folder = FOLDER / seed
        folder.mkdir()
        args = settings(folder)
        net = model(args, weights)
        for n, (source, target) in enumerate(TINY["texts"][seed]):
            ids, _, read, segments, _, _, _ = reading.preprocess(
                [s.split() for s in source], [s.split() for s in target], [], is_test=True
            )
            src, segs = torch.tensor([ids]), torch.tensor([segments])
            batch = Namespace(src=src, segs=segs, mask_src=torch.ones_like(src), batch_size=1)
            with torch.no_grad():
                out, _ = net(src, torch.tensor([read]), segs, None, batch.mask_src, None, None)
                rows = net.generator(out)[0]
                told = [float(rows[t, i]) for t, i in enumerate(read[1:])]
                best = {}
                for block in (False, True):
                    found = searcher(args, net, reading.tokenizer, block).translate_batch(batch)
                    best[block] = [int(i) for i in found["predictions"][0][0]]
            made[f"{seed}/{n}"] = [ids, read, sum(told), best[False], best[True]]
        save(args, net)
    (FOLDER / "made.json").write_text(json.dumps(made))


if __name__ == "__main__":
    main()
