"""``PromptCodec``: the codec of decoder-only models, whose source is the prompt itself."""

from dwindle.models.subword import AS_TEXT, SubwordCodec


class PromptCodec(SubwordCodec):
    """Special tokens come before a prompt only, with no end token: the model goes on writing."""

    def _lines(self, **text: str) -> list[list[int]]:
        found: list[list[int]] = self.tokenizer(list(text.values()), **AS_TEXT)["input_ids"]
        return found

    def _ends(self) -> tuple[list[int], list[int]]:
        given: list[int] = self.tokenizer("")["input_ids"]
        return [i for i in given if i != self.tokenizer.eos_token_id], []
