"""fairseq's own code, run by a Python of its time: ``python old_fairseq.py FOLDER``.

Needs Python 3.8 and fairseq 0.12.2; ``make.py`` starts it and has written FOLDER: ``tiny.json``
with sizes and ids, and for each seed the checkpoint that the tests import. Writes ``made.json``
there: log-probabilities of the targets, and the best hypotheses. Knows nothing of dwindle.
"""

import json
import sys
from argparse import Namespace
from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.models.bart import BARTModel, bart_large_architecture
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.sequence_generator import SequenceGenerator

FOLDER = Path(sys.argv[-1])
TINY = json.loads((FOLDER / "tiny.json").read_text())


def dictionary(rows):
    """Four symbols of fairseq's own come first: <s>, <pad>, </s> and <unk>."""
    made = Dictionary()
    for n in range(rows - len(made)):
        made.add_symbol(f"word{n}")
    return made


def model(kind, given, seed):
    """A model of fairseq's class, with the weights of a checkpoint, all of them."""
    sizes = {
        f"{part}_{name}": given[value]
        for part in ("encoder", "decoder")
        for name, value in (("embed_dim", "width"), ("ffn_embed_dim", "ffn"))
    }
    args = Namespace(**dict(given["settings"], **sizes))
    args.task = "translation"
    bart = kind == "bart"
    if bart:
        args.max_source_positions = args.max_target_positions = given["positions"]
    args.share_decoder_input_output_embed = args.share_all_embeddings = given["shared"]
    (bart_large_architecture if bart else base_architecture)(args)
    source, target = (dictionary(rows) for rows in given["rows"])
    if given["shared"]:
        target = source
    task = Namespace(source_dictionary=source, target_dictionary=target)
    made = (BARTModel if bart else TransformerModel).build_model(args, task)
    stored = torch.load(str(FOLDER / f"{kind}-{seed}.pt"))["model"]
    made.load_state_dict(stored, strict=True)
    return made.eval(), target


def said(net, source, target):
    """Log-probability of each token of a target."""
    ids, read = torch.tensor([source]), torch.tensor([[2, *target[:-1]]])
    out = net(ids, torch.tensor([len(source)]), read)
    rows = net.get_normalized_probs(out, log_probs=True)[0]
    return [float(rows[t, i]) for t, i in enumerate(target)]


def main():
    made = {}
    lengths = {name: TINY[name] for name in ("beam_size", "max_len_b", "min_len")}
    for kind, given in TINY["kinds"].items():
        for seed, sources in given["sources"].items():
            net, target = model(kind, given, seed)
            first = torch.tensor([[0]]) if kind == "bart" else None
            # before a search tells the model its beams; in double precision, as sharp models need
            for n, ids in enumerate(sources):
                with torch.no_grad():
                    told = said(net.double(), ids, given["targets"][seed][n])
                made[f"{kind}/{seed}/{n}"] = told
            net.float()
            for n, ids in enumerate(sources):
                sample = {
                    "net_input": {
                        "src_tokens": torch.tensor([ids]),
                        "src_lengths": torch.tensor([len(ids)]),
                    }
                }
                for penalty in TINY["penalties"]:
                    search = SequenceGenerator([net], target, len_penalty=penalty, **lengths)
                    best = search.generate([net], sample, prefix_tokens=first)[0][0]
                    made[f"{kind}/{seed}/{n}/{penalty}"] = [
                        best["tokens"].tolist(),
                        float(best["score"]),
                    ]
    (FOLDER / "made.json").write_text(json.dumps(made))


if __name__ == "__main__":
    main()
