"""Any transformers causal language model as a policy: it samples responses and computes their log-probabilities.

Shapes: b transitions of a batch, p prompt tokens (the longest prompt), r response tokens (the longest response),
t = p + r, v tokens of the vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bepo.core.batch import Tokens
from bepo.core.errors import UserError
from bepo.policies import ADAPTER_CONFIG
from bepo.policies.lm.adapters import copy_sharing_frozen, load_adapters, save_adapters
from bepo.policies.lm.batching import Transitions, free_tokens, padded_micro_batches, response_ids, response_mask
from bepo.policies.lm.chat import Chat, Content, end_of_answer
from bepo.policies.lm.logit_mask import Ids, Trie, allowed_ids, mask_logits, token_trie
from bepo.policies.lm.padded_decoder import PaddedDecoder
from bepo.policies.lm.padding import full, pad_left, pad_right
from bepo.policies.lm.responses import Decoder, Response, draw
from bepo.rollouts.collect import Overlong, Sample, Sampling

transformers.logging.disable_progress_bar()  # a run shows its own progress bar


@dataclass
class TokenLogProbs:
    """Log-probability and entropy (in nats) of each response token; both are 0 where ``mask`` is False."""

    logprob: Float[Tensor, "b r"]
    entropy: Float[Tensor, "b r"]
    mask: Bool[Tensor, "b r"]


class PaddedBatch(NamedTuple):
    """The network's inputs for b transitions, and their responses in the last r columns."""

    inputs: dict[str, Tensor]
    response: Int[Tensor, "b r"]
    mask: Bool[Tensor, "b r"]  # True for response tokens, False for padding


class LanguageModel:
    """A causal language model with its tokenizer.

    Prompts go through the tokenizer's chat template. As in vLLM, a response ends with the tokenizer's end-of-sequence
    token or one of the checkpoint's ``generation_config``. ``sample`` and ``log_probs`` use the same layout (prompts
    padded on the left, responses on the right) and the same restricted distribution (temperature, top-k, top-p,
    admissible actions), so importance ratios start at 1.
    """

    def __init__(
        self,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        max_prompt_length: int,
        max_response_length: int,
        constrained: bool = False,
        device: str = "cpu",
        origin: str = "",
    ) -> None:
        """Lengths are in tokens. ``origin`` names the weights below adapters in their folder.

        Raises ``UserError`` for a tokenizer without a chat template or end token.
        """
        if tokenizer.chat_template is None:
            raise UserError("the policy's tokenizer has no chat template: choose an instruction-tuned model")
        self.model = remove_dropout(model)
        self.model.to(torch.device(device))  # pyright: ignore[reportArgumentType] (transformers' stub forgets self)
        self.tokenizer, self.chat = tokenizer, Chat(tokenizer)
        special: Any = tokenizer  # in its stubs an ID may also be text
        self.pad_id: int = special.pad_token_id
        self.end_ids = end_ids(tokenizer, model.generation_config)
        # Not always eos_token: Gemma's template ends an answer with another one.
        end: Any = tokenizer.convert_tokens_to_ids(end_of_answer(tokenizer) or special.eos_token)
        self.end_id: int = end if end in self.end_ids else special.eos_token_id
        self.max_prompt_length, self.max_response_length = max_prompt_length, max_response_length
        self.constrained, self.origin = constrained, origin
        self.device = torch.device(device)
        self.autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")
        cached = lru_cache(maxsize=65536)
        self._trie, self._encoded = cached(self._build_trie), cached(self._encode_response)
        self._decode = cached(self._decode_response)

    # --- text and tokens -----------------------------------------------------------------------------------

    def encode(self, prompt: str, image: np.ndarray | None = None) -> list[int]:
        """Return the token IDs of a prompt, as one user message; ``image`` is its picture, (H, W, 3) uint8.

        Raises ``Overlong`` for more than ``max_prompt_length`` tokens, and ``UserError`` if the policy cannot read
        pictures.
        """
        ids = self._tokenize(prompt, image)
        if len(ids) > self.max_prompt_length:
            raise Overlong(f"a prompt has {len(ids)} tokens, policy.max_prompt_length is {self.max_prompt_length}")
        return ids

    def _encode_or_refuse(self, prompt: str, image: np.ndarray | None) -> list[int] | Overlong:
        try:
            return self.encode(prompt, image)
        except Overlong as error:
            return error

    def _tokenize(self, prompt: str, image: np.ndarray | None) -> list[int]:
        if image is not None:
            raise UserError("the environment shows pictures, but this policy reads only text: choose policy=tiny_vl")
        return self._chat(prompt)

    def _chat(self, content: Content) -> list[int]:
        return self.chat.ids(content)

    def encode_response(self, text: str) -> list[int]:
        """Return the token ids of a response, the end-of-sequence token included."""
        return list(self._encoded(text))

    def _encode_response(self, text: str) -> tuple[int, ...]:
        return *self.chat.text_ids(text), self.end_id

    def _decode_response(self, ids: tuple[int, ...]) -> str:
        text = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        assert isinstance(text, str)  # for the type checker: one response gives one text
        return text

    # --- sampling ------------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self,
        prompts: Sequence[str],
        choices: Sequence[tuple[str, ...]],
        sampling: Sampling,
        seed: int,
        images: Sequence[np.ndarray | None] | None = None,
    ) -> list[Sample | Overlong]:
        """Return one response for each prompt, or ``Overlong`` if it is too long.

        Every draw follows from ``seed``, row and position; prompts that are too long do not count as rows. ``choices``
        are the admissible actions of each prompt; only a ``constrained`` policy uses them. ``images`` are the pictures
        of the prompts, (H, W, 3) uint8 each.
        """
        self.model.eval()
        images = images or [None] * len(prompts)
        encoded = [self._encode_or_refuse(prompt, image) for prompt, image in zip(prompts, images)]
        prompt_ids = [ids for ids in encoded if not isinstance(ids, Overlong)]
        if len(prompt_ids) < len(encoded):
            fit = [i for i, ids in enumerate(encoded) if not isinstance(ids, Overlong)]
            texts, actions, pictures = [prompts[i] for i in fit], [choices[i] for i in fit], [images[i] for i in fit]
            samples = iter(self.sample(texts, actions, sampling, seed, pictures) if fit else [])
            return [ids if isinstance(ids, Overlong) else next(samples) for ids in encoded]
        tries = [self._trie(actions) for actions in choices] if self.constrained else [None] * len(prompts)
        responses = [Response(trie, self.end_ids, self.max_response_length) for trie in tries]
        generator = torch.Generator(self.device).manual_seed(seed)
        shape = len(prompts), self.max_response_length
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64, device=self.device)
        read = self._decoder(prompt_ids, images, responses)
        while rows := [i for i, response in enumerate(responses) if response.is_open]:
            logits = read([response.ids for response in responses], rows)
            allowed = [responses[i].choices for i in rows] if self.constrained else None
            at = rows, [len(responses[i].ids) for i in rows]
            drawn = draw(mask_logits(logits, sampling, allowed), uniform[at])
            for i, *token in zip(rows, *(column.tolist() for column in drawn)):
                responses[i].write(*token)
        return [
            Sample(ids, r.ids, r.logprobs, self._decode(tuple(r.ids)), r.allowed, r.entropies, r.energies)
            for ids, r in zip(prompt_ids, responses)
        ]

    def _decoder(
        self,
        prompt_ids: Sequence[Sequence[int]],
        images: Sequence[np.ndarray | None],
        responses: Sequence[Response],
    ) -> Decoder:
        """Return a decoder for some prompts and the responses after them."""
        return PaddedDecoder(self, prompt_ids, images)

    def _build_trie(self, choices: tuple[str, ...]) -> Trie:
        return token_trie(map(self._encoded, choices))

    # --- log-probabilities ---------------------------------------------------------------------------------

    def log_probs(self, tokens: Tokens, transitions: Transitions, sampling: Sampling) -> TokenLogProbs:
        """Return log-probability and entropy of each response token of some transitions.

        They belong to the distribution that ``sample`` draws from with the same ``sampling``. They have a gradient if
        torch has gradients enabled. Both are 0 for a token without an alternative.
        """
        free = free_tokens(tokens, transitions)
        allowed, response = allowed_ids(tokens, transitions, free), response_ids(tokens, transitions)[free]
        logits, allowed, response = self._choices(tokens, transitions, free, allowed, response)
        log_all = mask_logits(logits, sampling, allowed).log_softmax(-1)
        chosen = log_all.gather(1, torch.from_numpy(response).to(self.device).unsqueeze(1)).squeeze(1)
        # Leave out forbidden tokens (p = 0, log p = -inf), because their gradient would be NaN.
        entropy = -(log_all.exp() * log_all.masked_fill(log_all.isneginf(), 0.0)).sum(-1)
        zeros, at = chosen.new_zeros(free.shape), torch.from_numpy(free).to(self.device)
        mask = torch.from_numpy(response_mask(tokens, transitions)).to(self.device)
        return TokenLogProbs(zeros.masked_scatter(at, chosen), zeros.masked_scatter(at, entropy), mask)

    def _choices(
        self,
        tokens: Tokens,
        transitions: Transitions,
        asked: Bool[np.ndarray, "b r"],
        allowed: Sequence[Ids] | None,
        response: Int[np.ndarray, " n"],
    ) -> tuple[Float[Tensor, "n v"], Sequence[Ids] | None, Int[np.ndarray, " n"]]:
        """Return the logits of the ``asked`` response tokens, and the allowed and the given tokens as their columns."""
        return self._logits(tokens, transitions, asked), allowed, response

    def hidden(
        self, tokens: Tokens, transitions: Transitions, asked: Bool[np.ndarray, "b r"], backbone: nn.Module
    ) -> Float[Tensor, "n h"]:
        """Return the hidden states that predict the ``asked`` response tokens, row by row.

        ``backbone`` is the policy's own backbone, or a copy of it.
        """
        inputs, response, _ = self.padded(tokens, transitions, backbone)
        with self.autocast:
            hidden = backbone(**inputs, use_cache=False).last_hidden_state
        return full(hidden[:, -response.shape[1] - 1 : -1][torch.from_numpy(asked).to(self.device)])

    def _logits(self, tokens: Tokens, transitions: Transitions, asked: Bool[np.ndarray, "b r"]) -> Float[Tensor, "n v"]:
        """Return the logits of the ``asked`` response tokens, row by row."""
        inputs, response, _ = self.padded(tokens, transitions)
        with self.autocast:
            logits = self.model(**inputs, use_cache=False, logits_to_keep=response.shape[1] + 1).logits
        return full(logits[:, :-1][torch.from_numpy(asked).to(self.device)])

    def padded(self, tokens: Tokens, transitions: Transitions, backbone: nn.Module | None = None) -> PaddedBatch:
        """Return whole transitions as inputs of ``backbone``, by default the policy's own.

        A critic has a copy of the backbone, which embeds pictures with separate weights.
        """
        ids, mask = pad_left([tokens.prompt(i).tolist() for i in transitions], self.pad_id, self.device)
        responses = [tokens.response(i).tolist() for i in transitions]
        response, is_response = pad_right(responses, self.pad_id, self.device)
        ids, mask = torch.cat([ids, response], dim=1), torch.cat([mask, is_response], dim=1)
        images = [tokens.picture(i) for i in transitions]
        inputs = self.inputs(ids, mask, images, backbone or self.model.base_model)
        return PaddedBatch(inputs, response, is_response.bool())

    def inputs(
        self,
        ids: Int[Tensor, "b t"],
        mask: Int[Tensor, "b t"],
        images: Sequence[np.ndarray | None],
        backbone: nn.Module,
    ) -> dict[str, Tensor]:
        """Return the inputs of ``backbone`` for padded token IDs. For text: the IDs, their mask and their positions."""
        return {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}

    def micro_batches(
        self, tokens: Tokens, transitions: Int[np.ndarray, " m"], max_tokens: int
    ) -> Iterator[Int[np.ndarray, " b"]]:
        """Divide transitions into micro-batches of at most ``max_tokens`` tokens, padding included."""
        return padded_micro_batches(tokens, transitions, max_tokens)

    # --- copies and files ----------------------------------------------------------------------------------

    def forget(self) -> None:
        """Drop what was computed with the present weights, before new rollouts and after a change of weights."""

    def frozen_copy(self) -> LanguageModel:
        """Return a copy whose weights never change, such as the reference of a KL loss.

        It shares the weights that are not trained. New adapters change nothing, so their copy is the model without
        adapters.
        """
        frozen = copy.copy(self)
        frozen.model = copy_sharing_frozen(self.model).eval().requires_grad_(False)
        return frozen

    def load_weights(self, folder: Path) -> None:
        """Load weights that ``save`` wrote for a model of the same shape, or adapters that were merged into weights."""
        self.forget()
        if self.has_adapters and (folder / ADAPTER_CONFIG).exists():
            return load_adapters(self.model, folder)
        loaded = type(self.model).from_pretrained(folder, dtype=torch.float32)
        if self.has_adapters:  # backend=verl keeps a policy without adapters
            self.model = remove_dropout(loaded).to(self.device)  # pyright: ignore[reportArgumentType] (stub forgets self)
        else:
            self.model.load_state_dict(loaded.state_dict())

    @property
    def has_adapters(self) -> bool:
        """Whether adapters are trained, and saved, instead of the weights."""
        return bool(getattr(self.model, "peft_config", None))

    def save(self, folder: Path) -> None:
        """Write a checkpoint for transformers: weights, config and tokenizer; of adapters, a folder of peft."""
        if self.has_adapters:
            save_adapters(self.model, self.origin, folder)
        else:
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def end_ids(
    tokenizer: transformers.PreTrainedTokenizerBase, generation: transformers.GenerationConfig | None
) -> frozenset[int]:
    """Return the IDs of the tokens that end a response, from the tokenizer and a checkpoint's generation config.

    Raises ``UserError`` for a tokenizer without an end token.
    """
    end: Any = tokenizer.eos_token_id  # in its stub an ID may also be text
    if end is None:
        raise UserError("the policy's tokenizer has no end token (eos_token): responses would never end")
    more = generation.eos_token_id if generation is not None else None
    return frozenset([end, *(more if isinstance(more, list) else [] if more is None else [more])])


def remove_dropout(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Set every dropout rate of a model to 0, and return the model.

    With dropout, log-probabilities would differ from those at sampling, and a resumed run from an uninterrupted one.
    """
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name in [n for n, v in vars(module).items() if n.endswith("dropout") and isinstance(v, float)]:
            setattr(module, name, 0.0)
    return model
