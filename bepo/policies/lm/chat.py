"""User messages as token IDs: a chat template writes control tokens, the text of a message never does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from bepo.envs._words import pieces

if TYPE_CHECKING:
    import transformers

ACT = "<act>"
"""The last word of a prompt of the built-in models, which asks for an action."""
Content = str | list[dict[str, str]]
"""A text, or parts such as ``{"type": "text", "text": "..."}`` and ``{"type": "image"}``."""
_TODAY = date(2024, 7, 26)
"""What a chat template that writes the date takes for today (Llama 3's own default), so that prompts stay the same."""
_ANSWER = "The answer."
_MARK = re.compile("\ue000\\d+\ue001")  # stands for a text while the template is applied


class Chat:
    """Encodes user messages for a tokenizer.

    A page or a game may show the words of a control token, such as ``<|im_end|>``, which ends a message. They are
    encoded as the text that they are. All other messages get the IDs that the tokenizer gives the whole chat. Added
    tokens that the tokenizer does not call special, such as Qwen's ``<think>``, stay what they are.
    """

    def __init__(self, tokenizer: transformers.PreTrainedTokenizerBase, template: Any = None) -> None:
        """``template`` has the chat template: a processor, or by default the tokenizer."""
        self._tokenizer, self._template = tokenizer, template or tokenizer
        names = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        names |= {*map(str, tokenizer.all_special_tokens), ACT}
        known = tokenizer.get_vocab()
        self._control_ids = {name: known[name] for name in sorted(names, key=len, reverse=True) if name in known}
        self._controls = re.compile("|".join(map(re.escape, self._control_ids)) or "(?!)")

    def ids(self, content: Content) -> list[int]:
        """Return the token IDs of one user message, in the chat template."""
        written, texts = self.written(content), _texts(content)
        if not any(map(self.has_controls, texts)):
            return self._tokenizer.encode(written, add_special_tokens=False)
        around = _MARK.split(self.written(_with_texts(content, [f"\ue000{i}\ue001" for i in range(len(texts))])))
        for parts in (texts, [text.strip() for text in texts]):  # some templates strip a message
            if "".join(a + b for a, b in zip_longest(around, parts, fillvalue="")) == written:
                return self._joined(around, parts)
        broken = self.written(_with_texts(content, [self._broken(text) for text in texts]))
        return self._tokenizer.encode(broken, add_special_tokens=False)

    def text_ids(self, text: str) -> list[int]:
        """Return the token IDs of a text without a template."""
        if not self.has_controls(text):
            return self._tokenizer.encode(text, add_special_tokens=False)
        ids = self._tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        if not {*self._control_ids.values()} & {*ids}:
            return ids
        return self._tokenizer.encode(self._broken(text), add_special_tokens=False)  # a tokenizer of whole words

    def written(self, content: Content) -> str:
        """Return one user message in the chat template."""
        message = [{"role": "user", "content": content}]
        text = self._template.apply_chat_template(
            message, tokenize=False, add_generation_prompt=True, strftime_now=_TODAY.strftime
        )
        assert isinstance(text, str)  # for the type checker: tokenize=False
        return text

    def has_controls(self, text: str) -> bool:
        """Return whether the words of a control token are in a text."""
        return self._broken(text) != text

    def _joined(self, around: Sequence[str], texts: Sequence[str]) -> list[int]:
        """Return the IDs of texts and what the template writes around them. Only the latter has control tokens."""
        ids, plain = [], ""
        for written, text in zip_longest(around, texts, fillvalue=""):
            place = 0
            for control in self._controls.finditer(written):
                ids += self.text_ids(plain + written[place : control.start()])
                ids.append(self._control_ids[control[0]])
                plain, place = "", control.end()
            plain += written[place:] + text
        return ids + self.text_ids(plain)

    def _broken(self, text: str) -> str:
        """Return a text with a blank in the words of control tokens."""

        def broken(match: re.Match[str]) -> str:
            word = match[0]
            return word if word == ACT and is_answer(text[: match.start()]) else f"{word[0]} {word[1:]}"

        return self._controls.sub(broken, text)


def end_of_answer(tokenizer: transformers.PreTrainedTokenizerBase) -> str | None:
    """Return the special token that follows an answer in the chat template; None if none does."""
    if tokenizer.chat_template is None:
        return None
    dialogue = [{"role": "user", "content": "A question?"}, {"role": "assistant", "content": _ANSWER}]
    text = str(tokenizer.apply_chat_template(dialogue, tokenize=False))
    after = text.rpartition(_ANSWER)[2].strip()
    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    ends = [token for token in special if after.startswith(token)]
    return max(ends, key=len) if ends else None


def is_answer(before: str) -> bool:
    """Return whether the word after ``before`` is part of a response, which compact prompts show behind ``then``.

    A tiny model may answer with any word of its vocabulary. Its runs have always read ``<act>`` there as that word.
    """
    return "then" in pieces(before.rpartition("\n")[2])


def _texts(content: Content) -> list[str]:
    return [content] if isinstance(content, str) else [part["text"] for part in content if "text" in part]


def _with_texts(content: Content, texts: Sequence[str]) -> Content:
    """Return the same content with other texts."""
    if isinstance(content, str):
        return texts[0]
    others = iter(texts)
    return [part | {"text": next(others)} if "text" in part else part for part in content]
