"""An attached model on the hub: its card, which names the rule, and ``push_to_hub``.

A card that somebody has written stays as it is, but for one section on the rule, between two marks.
Talks to the hub through its own library only.
"""

# transformers and the hub's library are imported only when something is pushed
from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dwindle.attaching.hooks import Hook
from dwindle.runfiles import whole

if TYPE_CHECKING:
    from dwindle.attaching.hooks import Link

CARD = "README.md"
_BEGIN, _END = "<!-- dwindle: begin -->", "<!-- dwindle: end -->"
_SECTION = re.compile(f"{_BEGIN}.*?{_END}", re.DOTALL)
TAGS = ["dwindle", "diminishing-attention"]


def card(link: Any, name: str, before: str | None = None, tags: Sequence[str] = ()) -> str:
    """The card of the model that ``link`` is attached to, to be loaded by ``name``.

    ``before``: the card that is there already; it gets the section on the rule, or another one in
    place of its own.
    """
    from huggingface_hub import ModelCard

    section = _section(link, name)
    if before is None:
        text = f"---\nlibrary_name: transformers\n---\n\n# {Path(name).name}\n\n{section}\n"
    elif _SECTION.search(before):
        text = _SECTION.sub(lambda _: section, before)
    else:
        text = f"{before.rstrip()}\n\n{section}\n"
    made: Any = ModelCard(text)
    made.data.tags = list(dict.fromkeys([*(made.data.to_dict().get("tags") or []), *TAGS, *tags]))
    return str(made)


def write_card(link: Any, folder: Path) -> None:
    """Write the card of a saved model, or into its card the section on its rule."""
    file = folder / CARD
    before = file.read_text(encoding="utf-8") if file.is_file() else None
    whole.write_text(file, card(link, folder.name, before))  # somebody may have written it


def _section(link: Any, name: str) -> str:
    layers = ", ".join(map(str, link.layers))
    where = "self-attention layers, over the prompt" if link.source else "cross-attention layers"
    return f"""{_BEGIN}
## Rule

This model attends by the rule `{link.rule}` of
[diminishing attention](https://arxiv.org/abs/1911.03014), in its
{where} {layers}. `dwindle` puts it in again when the model is loaded:

```python
import dwindle

model = dwindle.from_pretrained("{name}")
```
{_END}"""


@dataclass
class Push(Hook):
    """The ``push_to_hub`` of an attached model: the library's, with a card that names the rule."""

    link: Link

    def __call__(
        self,
        repo_id: str,
        *,
        commit_message: str | None = None,
        commit_description: str | None = None,
        private: bool | None = None,
        token: bool | str | None = None,
        revision: str | None = None,
        create_pr: bool = False,
        max_shard_size: int | str = "50GB",
        tags: list[str] | None = None,
    ) -> Any:
        """Upload the model, with its rule in the config and on the card, in one commit.

        Args:
            repo_id: name on the hub; it is made if it is not there.
            revision: the branch that is written to.
            tags: for the card, beside those of dwindle.
            commit_message, commit_description, private, token, create_pr, max_shard_size: as in the
                library.
        """
        from huggingface_hub import HfApi, ModelCard
        from huggingface_hub.errors import EntryNotFoundError

        library: Any = ModelCard  # typed more narrowly than it is
        hub = HfApi(token=token)
        name = hub.create_repo(repo_id, private=private, exist_ok=True).repo_id
        if revision is not None and not revision.startswith("refs/pr"):
            hub.create_branch(name, branch=revision, exist_ok=True)
        try:
            before = str(library.load(name, token=token))
        except EntryNotFoundError:
            before = None
        with tempfile.TemporaryDirectory() as place:
            self.link.model.save_pretrained(place, max_shard_size=max_shard_size)
            (Path(place) / CARD).write_text(
                card(self.link, name, before, tags or ()), encoding="utf-8"
            )
            return hub.upload_folder(
                repo_id=name,
                folder_path=place,
                commit_message=commit_message or "Upload model",
                commit_description=commit_description,
                revision=revision,
                create_pr=create_pr,
            )
