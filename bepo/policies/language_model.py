"""Any transformers causal language model as a policy: it samples responses and computes their log-probabilities.

Shapes: b transitions of a batch, p prompt tokens (the longest prompt), r response tokens (the longest response),
t = p + r, v tokens of the vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
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
from bepo.policies.padding import pad_left, pad_right
from bepo.policies.restriction import Transitions, Trie, allowed_ids, restrict, token_trie
from bepo.rollouts.collect import Sample, Sampling

transformers.logging.disable_progress_bar()  # a run shows one progress bar, its own


@dataclass
class TokenLogProbs:
    """Log-probability and entropy (in nats) of each response token; both are 0 where ``mask`` is False."""

    logprob: Float[Tensor, "b r"]
    entropy: Float[Tensor, "b r"]
    mask: Bool[Tensor, "b r"]


class PaddedBatch(NamedTuple):
    """What a network reads of b transitions, and their responses, which are its last r columns."""

    inputs: dict[str, Tensor]
    response: Int[Tensor, "b r"]
    mask: Bool[Tensor, "b r"]  # True for response tokens, False for padding


class LanguageModel:
    """A causal language model with its tokenizer.

    Prompts go through the tokenizer's chat template, and responses end with its end-of-sequence token. ``sample`` and
    ``log_probs`` use the same layout (prompts padded on the left, responses on the right) and the same restriction of
    the distribution (temperature, top-k, top-p, admissible actions), so importance ratios start at 1.
    """

    def __init__(
        self,
        model: transformers.PreTrainedModel,
        tokenizer: transformers.PreTrainedTokenizerBase,
        max_prompt_length: int,
        max_response_length: int,
        constrained: bool = False,
        device: str = "cpu",
    ) -> None:
        """Lengths are in tokens. Raises ``UserError`` for a tokenizer without a chat template."""
        if tokenizer.chat_template is None:
            raise UserError("the policy's tokenizer has no chat template: choose an instruction-tuned model")
        self.model = remove_dropout(model)
        self.model.to(torch.device(device))  # pyright: ignore[reportArgumentType] (transformers' stub forgets self)
        self.tokenizer = tokenizer
        special: Any = tokenizer  # by its stubs, such an id may also be text
        self.pad_id: int = special.pad_token_id
        self.end_id: int = special.eos_token_id
        self.max_prompt_length, self.max_response_length = max_prompt_length, max_response_length
        self.constrained = constrained
        self.device = torch.device(device)
        self.autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")
        self._trie = lru_cache(maxsize=65536)(self._build_trie)

    # --- text and tokens -----------------------------------------------------------------------------------

    def encode(self, prompt: str, image: np.ndarray | None = None) -> list[int]:
        """Return the token ids of a prompt, as one user message; ``image`` is its picture, (H, W, 3) uint8.

        Raises ``UserError`` for more than ``max_prompt_length`` tokens, and for a picture that the policy cannot read.
        """
        ids = self._tokenize(prompt, image)
        if len(ids) > self.max_prompt_length:
            raise UserError(f"a prompt has {len(ids)} tokens, policy.max_prompt_length is {self.max_prompt_length}")
        return ids

    def _tokenize(self, prompt: str, image: np.ndarray | None) -> list[int]:
        if image is not None:
            raise UserError("the environment shows pictures, and this policy reads text: choose policy=tiny_vl")
        return self._chat(prompt)

    def _chat(self, content: str | list[dict[str, str]]) -> list[int]:
        message = [{"role": "user", "content": content}]
        text = self.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        assert isinstance(text, str)  # not tokenized
        return self.tokenizer.encode(text, add_special_tokens=False)

    def encode_response(self, text: str) -> list[int]:
        """Return the token ids of a response, the end-of-sequence token included."""
        return [*self.tokenizer.encode(text, add_special_tokens=False), self.end_id]

    # --- sampling ------------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self,
        prompts: Sequence[str],
        choices: Sequence[tuple[str, ...]],
        sampling: Sampling,
        seed: int,
        images: Sequence[np.ndarray | None] | None = None,
    ) -> list[Sample]:
        """Return one response for each prompt; every draw follows from ``seed``.

        ``choices`` are the admissible actions of each prompt, which matter only where the policy is ``constrained``.
        ``images`` are the pictures of the prompts, (H, W, 3) uint8 each.
        """
        self.model.eval()
        generator = torch.Generator(self.device).manual_seed(seed)
        images = images or [None] * len(prompts)
        prompt_ids = [self.encode(prompt, image) for prompt, image in zip(prompts, images)]
        nodes = [self._trie(actions) for actions in choices] if self.constrained else None
        inputs = self._inputs(*self._pad_left(prompt_ids), images, self.model.base_model)
        cache = transformers.DynamicCache(config=self.model.config)
        samples = [Sample(ids, [], [], "", []) for ids in prompt_ids]
        unfinished = list(range(len(samples)))
        for _ in range(self.max_response_length):
            allowed = [list(node) for node in nodes] if nodes else None
            token, logprobs = self._draw(inputs, cache, sampling, allowed, generator)
            token_ids = token.squeeze(1).tolist()
            for i in unfinished:
                samples[i].response_ids.append(token_ids[i])
                samples[i].logprobs.append(logprobs[i])
                if allowed:
                    samples[i].allowed.append(allowed[i])
            if nodes:
                nodes = [node.get(t) or {self.end_id: {}} for node, t in zip(nodes, token_ids)]
            unfinished = [i for i in unfinished if token_ids[i] != self.end_id]
            if not unfinished:
                break
            inputs = {
                "input_ids": token,
                "attention_mask": nn.functional.pad(inputs["attention_mask"], (0, 1), value=1),
                "position_ids": inputs["position_ids"][..., -1:] + 1,
            }
        texts = self.tokenizer.batch_decode([s.response_ids for s in samples], skip_special_tokens=True)
        for sample, text in zip(samples, texts):
            sample.text = text
        return samples

    def _draw(
        self,
        inputs: dict[str, Tensor],
        cache: transformers.DynamicCache,
        sampling: Sampling,
        allowed: list[list[int]] | None,
        generator: torch.Generator,
    ) -> tuple[Int[Tensor, "b 1"], list[float]]:
        """Draw the next token of each row, and return the tokens and their log-probabilities."""
        with self.autocast:
            output = self.model(**inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
        probabilities = restrict(output.logits[:, -1].float(), sampling, allowed).softmax(-1)
        token = torch.multinomial(probabilities, 1, generator=generator)
        return token, probabilities.gather(1, token).log().squeeze(1).tolist()

    def _build_trie(self, choices: tuple[str, ...]) -> Trie:
        return token_trie(map(self.encode_response, choices))

    # --- log-probabilities ---------------------------------------------------------------------------------

    def padded(self, tokens: Tokens, transitions: Transitions, backbone: nn.Module | None = None) -> PaddedBatch:
        """Return whole transitions as ``backbone`` reads them.

        It is the policy's own backbone unless another is given: a critic has a copy, which embeds pictures with weights
        of its own.
        """
        ids, mask = self._pad_left([tokens.prompt(i).tolist() for i in transitions])
        responses = [tokens.response(i).tolist() for i in transitions]
        response, response_mask = pad_right(responses, self.pad_id, self.device)
        ids, mask = torch.cat([ids, response], dim=1), torch.cat([mask, response_mask], dim=1)
        images = [tokens.picture(i) for i in transitions]
        inputs = self._inputs(ids, mask, images, backbone or self.model.base_model)
        return PaddedBatch(inputs, response, response_mask.bool())

    def log_probs(self, tokens: Tokens, transitions: Transitions, sampling: Sampling) -> TokenLogProbs:
        """Return log-probability and entropy of each response token of the given transitions.

        They are those of the distribution that ``sample`` draws from with the same ``sampling``, with gradient where
        torch has it enabled.
        """
        inputs, response, mask = self.padded(tokens, transitions)
        with self.autocast:
            output = self.model(**inputs, use_cache=False, logits_to_keep=response.shape[1] + 1)
        logits = restrict(output.logits[:, :-1][mask].float(), sampling, allowed_ids(tokens, transitions))
        log_all = logits.log_softmax(-1)
        chosen = log_all.gather(1, response[mask].unsqueeze(1)).squeeze(1)
        # A forbidden token has p = 0 and log p = -inf: leave it out, or its gradient is not a number.
        entropy = -(log_all.exp() * log_all.masked_fill(log_all.isneginf(), 0.0)).sum(-1)
        zeros = torch.zeros(response.shape, device=self.device)
        return TokenLogProbs(zeros.masked_scatter(mask, chosen), zeros.masked_scatter(mask, entropy), mask)

    def _inputs(
        self,
        ids: Int[Tensor, "b t"],
        mask: Int[Tensor, "b t"],
        images: Sequence[np.ndarray | None],
        backbone: nn.Module,
    ) -> dict[str, Tensor]:
        """Return what ``backbone`` reads of padded token ids: for text, the ids, their mask and their positions."""
        return {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}

    def _pad_left(self, rows: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "b p"], Int[Tensor, "b p"]]:
        return pad_left(rows, self.pad_id, self.device)

    # --- copies and files ----------------------------------------------------------------------------------

    def frozen_copy(self) -> LanguageModel:
        """Return a copy whose weights never change, such as the reference of a KL loss."""
        frozen = copy.copy(self)
        frozen.model = copy.deepcopy(self.model).eval().requires_grad_(False)
        return frozen

    def load_weights(self, folder: Path) -> None:
        """Replace the weights by those that ``save`` wrote for a model of the same shape."""
        loaded = type(self.model).from_pretrained(folder, dtype=torch.float32)
        self.model.load_state_dict(loaded.state_dict())

    def save(self, folder: Path) -> None:
        """Write a checkpoint that transformers loads: weights, config and tokenizer."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def remove_dropout(model: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    """Set every dropout rate of a model to 0, and return the model.

    With dropout, log-probabilities would differ from those of sampling, and a resumed run from an uninterrupted one.
    """
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name in [n for n, v in vars(module).items() if n.endswith("dropout") and isinstance(v, float)]:
            setattr(module, name, 0.0)
    return model
