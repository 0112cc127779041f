"""The model that copies, and its tokenizer."""

import pytest

from tests.auditing import small


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer):
    return small.copier(len(tokenizer))
