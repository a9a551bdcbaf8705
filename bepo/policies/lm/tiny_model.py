"""The model and the tokenizer of the built-in policies, with a word-level vocabulary and fast splitting of prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from re import findall

import transformers
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from bepo.policies.lm.chat import ACT, Content
from bepo.policies.lm.prefix_sharing import PrefixSharingModel

PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"
_SPECIAL = (PAD, END, UNKNOWN, ACT)
_PIECE = r"<[a-z]+>|[A-Za-z]?[a-z]+|[0-9]+|\S"  # a word, a number, or one symbol (so a board row is its cells)
_CHAT = "{% for m in messages %}{{ m['content'] }}{% endfor %}{% if add_generation_prompt %} " + ACT + "{% endif %}"


class TinyLanguageModel(PrefixSharingModel):
    """A model that splits prompts by itself, each distinct line once, which is faster than a tokenizer's chat template.

    The token IDs equal those of ``build_tokenizer``'s tokenizer, in which words end at a newline. (Prompts with
    control characters may differ.)
    """

    def _chat(self, content: Content) -> list[int]:
        assert isinstance(content, str)  # for the type checker: it reads no pictures
        return [*chain.from_iterable(map(self._line, content.split("\n"))), self._ids[ACT]]

    @cached_property
    def _line(self) -> Callable[[str], tuple[int, ...]]:
        ids, unknown = self._ids, self._ids[UNKNOWN]
        return lru_cache(maxsize=65536)(lambda line: tuple(ids.get(piece, unknown) for piece in _plain_pieces(line)))

    @cached_property
    def _ids(self) -> dict[str, int]:
        return self.tokenizer.get_vocab()


def build_tokenizer(words: Sequence[str], markers: Sequence[str] = ()) -> transformers.PreTrainedTokenizerFast:
    """Return a word-level tokenizer that knows ``words`` and reads all other words as ``<unk>``.

    It keeps case and drops white space. ``markers`` are further special tokens. A word that is called like a special
    token is known by its parts, ``<``, ``end`` and ``>``.
    """
    plain = dict.fromkeys(part for word in words for part in (_parts(word) if word in _SPECIAL else [word]))
    vocabulary = {word: i for i, word in enumerate([*_SPECIAL, *markers, *plain])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = Split(Regex(_PIECE), behavior="removed", invert=True)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=list(markers),
        padding_side="left",
    )
    fast.chat_template = _CHAT
    return fast


def _plain_pieces(line: str) -> list[str]:
    """Return the words of a line of a prompt; the names of special tokens, which it may show, in parts."""
    pieces = findall(_PIECE, line)
    if not {*_SPECIAL} & {*pieces}:
        return pieces
    said = pieces.index("then") if "then" in pieces else len(pieces)  # an answer follows (``chat.is_answer``)
    return [
        part
        for place, word in enumerate(pieces)
        for part in (_parts(word) if word in _SPECIAL and not (word == ACT and place > said) else [word])
    ]


def _parts(special: str) -> list[str]:
    return [special[0], special[1:-1], special[-1]]
