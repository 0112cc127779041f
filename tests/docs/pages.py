"""Pages of the documentation as what they promise: their blocks of code, run as a reader would.

A block in ``python`` or ``bash`` is run; one in ``text`` (or ``json``) shows something and is not.
No page reaches for a network: where it names a model of the hub, a tiny one of the same family
stands in.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

HOME = Path(__file__).parents[2]
Run = Callable[..., tuple[int, str, str]]


class Block(NamedTuple):
    language: str
    code: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    text = (HOME / page).read_text(encoding="utf-8")
    for fence in re.finditer(r"^```(.*)\n((?:.*\n)*?)^```$", text, re.MULTILINE):
        yield Block(fence[1].strip(), fence[2], text[: fence.start()].count("\n") + 1)


def perform(
    page: str, run: Run, stand_ins: dict[str, str], made: Callable[[list[str]], list[str]] = list
) -> str:
    """Run all blocks of a page in the present folder, top to bottom; what its commands printed.

    Args:
        stand_ins: What is written in place of what, everywhere.
        made: The arguments of a command that are run in place of those on the page.
    """
    space: dict[str, object] = {"__name__": page}
    printed = ""
    for block in blocks(page):
        code = block.code
        for name, stand_in in stand_ins.items():
            code = code.replace(name, stand_in)
        if block.language == "python":
            # Lines of tracebacks are those of the page.
            exec(compile("\n" * block.line + code, page, "exec"), space)
        elif block.language == "bash":
            for command in code.splitlines():
                printed += _typed(command, run, made)
        else:
            shown = block.language in ("", "text", "json") or block.language.startswith("{")
            assert shown, f"{page}:{block.line} is in {block.language}: who runs it?"
    return printed


def _typed(command: str, run: Run, made: Callable[[list[str]], list[str]]) -> str:
    program, *arguments = shlex.split(command, comments=True) or ["#"]
    if program == "dwindle":
        code, out, err = run(*made(arguments))
        answers = (0, 1) if arguments[0] == "certify" else (0,)  # 1: refuted, which is an answer
        assert code in answers, f"{command}: {err}"
        return out
    if program == "make":
        rules = (HOME / "Makefile").read_text(encoding="utf-8")
        assert all(re.search(rf"^{target}:", rules, re.MULTILINE) for target in arguments), command
    elif program == "pip":
        # `test_packaging.py` looks at what is installed
        assert (program, arguments[0]) == ("pip", "install")
    else:
        assert program in ("#", "git", "cd"), f"{command}: not a command that this test knows"
    return ""
