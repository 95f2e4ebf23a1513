"""Texts as a kind of sample: token sequences of a Hugging Face tokenizer."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from trainables.data.core.samples import Samples
from trainables.data.core.types import Inputs
from trainables.plugins.arguments import describe_error
from trainables.plugins.extras import require_extra

_AT_A_TIME = 1024
_SHOWN_TOKENS = 60


@dataclass(frozen=True)
class Subwords(Samples):
    """Texts as sequences of token ids: int32, (N, L); ``shape`` is ``(L,)``.

    ``tokenizer`` is a name on the Hugging Face hub, or a folder; ``num_tokens`` the number of token
    ids; ``padding`` the id of padding.
    """

    shape: tuple[int]
    tokenizer: str
    num_tokens: int
    padding: int

    in_words: ClassVar[str] = "texts cut by a tokenizer (dataset.tokenizer)"
    model_dtype: ClassVar[str] = "int32"
    stored: ClassVar[str] = "int32"
    mixable: ClassVar[bool] = False
    encodes: ClassVar[bool] = True

    @classmethod
    def measured(cls, texts: Inputs, tokenizer: str, max_tokens: int) -> Self:
        """Creates this kind of sample; L is the length of the longest text, up to the maximum.

        ``texts`` are (N,) of ``str``. ``ValueError`` if there is no such tokenizer, or it has no
        padding token.
        """
        place = resolved(tokenizer)
        found = _tokenizer(place)
        if found.pad_token_id is None:
            raise ValueError(f"tokenizer={tokenizer} has no token to fill short texts up with")
        lengths = (len(ids) for some in _cut(place, texts, max_tokens) for ids in some)
        return cls((max(1, *lengths),), place, len(found), found.pad_token_id)

    @property
    def default_model(self) -> str:  # type: ignore[override]
        """The encoder that the tokenizer belongs to."""
        return f"huggingface/{self.tokenizer}"

    def __str__(self) -> str:
        return f"texts of {self.shape[0]} tokens of {self.tokenizer}"

    def encode(self, raw: Inputs) -> Inputs:
        """Converts texts (N,) of ``str`` to rows (N, L); long texts are truncated at the end."""
        cut = _cut(self.tokenizer, raw, self.shape[0], padding="max_length")
        none = np.empty((0, *self.shape), np.int32)
        return np.concatenate([none, *(np.array(ids, np.int32) for ids in cut)])

    def content(self) -> str | None:
        """The tokenizer itself, as JSON for the package ``tokenizers``, with this length.

        None for a tokenizer of pure Python, which that package cannot run.
        """
        found = _tokenizer(self.tokenizer)
        if not found.is_fast:
            return None
        from tokenizers import Tokenizer

        (length,) = self.shape
        own = Tokenizer.from_str(found.backend_tokenizer.to_str())
        own.enable_truncation(length, direction=found.truncation_side)
        own.enable_padding(direction=found.padding_side, pad_id=self.padding, length=length)
        content: str = own.to_str()
        return content

    def shown(self, row: Inputs) -> str:
        found = _tokenizer(self.tokenizer)
        text: str = found.decode(row[:_SHOWN_TOKENS].tolist(), skip_special_tokens=True)
        cut = len(row) > _SHOWN_TOKENS and row[_SHOWN_TOKENS] != self.padding
        return f"{text} …" if cut else text


def _cut(
    place: str, texts: Inputs, length: int, padding: str | bool = False
) -> Iterator[list[list[int]]]:
    """The ids of texts (N,) by the tokenizer at a place, some texts at a time."""
    for start in range(0, len(texts), _AT_A_TIME):
        some = list(texts[start : start + _AT_A_TIME])
        cut = _tokenizer(place)(some, truncation=True, padding=padding, max_length=length)
        yield cut["input_ids"]


def resolved(place: str) -> str:
    """A folder as an absolute path, because workers have other working directories; else a name."""
    folder = Path(os.path.expanduser(place))
    return str(folder.absolute()) if folder.is_dir() else place


@lru_cache(maxsize=4)
def _tokenizer(place: str) -> Any:
    require_extra(f"tokenizer={place}", "text", "transformers")
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(place)
    except Exception as error:  # errors of the hub, of its cache, or of damaged files
        raise ValueError(f"tokenizer={place} cannot be loaded: {describe_error(error)}") from error
