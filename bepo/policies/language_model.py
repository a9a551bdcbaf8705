"""Any transformers causal language model as a policy: sample with log-probabilities, score again, save."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation.logits_process import TopKLogitsWarper, TopPLogitsWarper
from transformers.utils import logging as transformers_logging

from bepo.collect import Sample, Sampling
from bepo.errors import UserError
from bepo.rollout import Tokens

transformers_logging.disable_progress_bar()  # one bar a run: the run's own


@dataclass
class Scores:
    """Per response token of a batch of records, zero where ``mask`` is."""

    logprob: Float[Tensor, "b r"]
    entropy: Float[Tensor, "b r"]
    mask: Bool[Tensor, "b r"]


class Batch(NamedTuple):
    """Whole records: what a network reads, and their responses, which are the last r columns of it."""

    inputs: dict[str, Tensor]
    response: Int[Tensor, "b r"]
    mask: Bool[Tensor, "b r"]


class LanguageModel:
    """Prompts go through the tokenizer's chat template; responses end with its end-of-sequence token.

    Sampling and scoring use the same layout (prompts padded on the left, responses on the right) and the same
    restriction of the distribution (temperature, top-k, top-p, admissible actions), so importance ratios start at 1.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        max_prompt: int,
        max_response: int,
        constrained: bool = False,
        device: str = "cpu",
    ) -> None:
        if tokenizer.chat_template is None:
            raise UserError("the policy's tokenizer has no chat template: choose an instruction-tuned model")
        self.model = without_dropout(model).to(device)
        self.tokenizer = tokenizer
        self.max_prompt, self.max_response = max_prompt, max_response
        self.constrained = constrained
        self.device = torch.device(device)
        self.autocast = torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")
        self._trie = lru_cache(maxsize=65536)(self._build_trie)

    # --- text and tokens -----------------------------------------------------------------------------------

    def encode(self, prompt: str, image: np.ndarray | None = None) -> list[int]:
        """Token ids of one user message. Raises ``UserError`` if they are more than ``max_prompt``."""
        ids = self._tokenize(prompt, image)
        if len(ids) > self.max_prompt:
            raise UserError(f"a prompt has {len(ids)} tokens, policy.max_prompt is {self.max_prompt}")
        return ids

    def _tokenize(self, prompt: str, image: np.ndarray | None) -> list[int]:
        if image is not None:
            raise UserError("the environment shows pictures, and this policy reads text: choose policy=tiny_vl")
        return self._chat(prompt)

    def _chat(self, content: str | list[dict[str, str]]) -> list[int]:
        message = [{"role": "user", "content": content}]
        text = self.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        return self.tokenizer.encode(text, add_special_tokens=False)

    def encode_response(self, text: str) -> list[int]:
        return [*self.tokenizer.encode(text, add_special_tokens=False), self.tokenizer.eos_token_id]

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
        """One response a prompt, every draw from ``seed``; ``choices`` matter only where ``constrained``."""
        self.model.eval()
        generator = torch.Generator(self.device).manual_seed(seed)
        images = images or [None] * len(prompts)
        encoded = [self.encode(p, image) for p, image in zip(prompts, images)]
        nodes = [self._trie(c) for c in choices] if self.constrained else None
        inputs = self._inputs(*self._left_padded(encoded), images, self.model.base_model)
        cache, eos = DynamicCache(config=self.model.config), self.tokenizer.eos_token_id
        drawn = [Sample(p, [], [], "", []) for p in encoded]
        open_rows = list(range(len(encoded)))
        for _ in range(self.max_response):
            logits = self._next_logits(inputs, cache)
            allowed = [list(n) for n in nodes] if nodes else None
            probabilities = self._restrict(logits, sampling, allowed).softmax(-1)
            token = torch.multinomial(probabilities, 1, generator=generator)
            logprob = probabilities.gather(1, token).log().squeeze(1).tolist()
            tokens = token.squeeze(1).tolist()
            for row in open_rows:
                drawn[row].response_ids.append(tokens[row])
                drawn[row].logprobs.append(logprob[row])
                if allowed:
                    drawn[row].allowed.append(allowed[row])
            if nodes:
                nodes = [n.get(t) or {eos: {}} for n, t in zip(nodes, tokens)]
            open_rows = [row for row in open_rows if tokens[row] != eos]
            if not open_rows:
                break
            inputs = {
                "input_ids": token,
                "attention_mask": nn.functional.pad(inputs["attention_mask"], (0, 1), value=1),
                "position_ids": inputs["position_ids"][..., -1:] + 1,
            }
        texts = self.tokenizer.batch_decode([s.response_ids for s in drawn], skip_special_tokens=True)
        for sample, text in zip(drawn, texts):
            sample.text = text
        return drawn

    def _next_logits(self, inputs: dict[str, Tensor], cache: DynamicCache) -> Float[Tensor, "b v"]:
        with self.autocast:
            out = self.model(**inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].float()

    # --- scoring -------------------------------------------------------------------------------------------

    def batch(self, tokens: Tokens, records: Sequence[int], backbone: PreTrainedModel | None = None) -> Batch:
        """Whole records for ``backbone``, which is the policy's unless a copy of it is given."""
        ids, mask = self._left_padded([tokens.prompt(i).tolist() for i in records])
        answer, answer_mask = self._right_padded([tokens.response(i).tolist() for i in records])
        ids, mask = torch.cat([ids, answer], dim=1), torch.cat([mask, answer_mask], dim=1)
        images = [tokens.picture(i) for i in records]
        return Batch(self._inputs(ids, mask, images, backbone or self.model.base_model), answer, answer_mask.bool())

    def score(self, tokens: Tokens, records: Sequence[int], sampling: Sampling) -> Scores:
        """Log-probability and entropy of each response token of the given records, with gradient if enabled."""
        inputs, answer, present = self.batch(tokens, records)
        with self.autocast:
            out = self.model(**inputs, use_cache=False, logits_to_keep=answer.shape[1] + 1)
        logits = out.logits[:, :-1][present].float()
        logits = self._restrict(logits, sampling, self._allowed(tokens, records))
        log_all = logits.log_softmax(-1)
        chosen = log_all.gather(1, answer[present].unsqueeze(1)).squeeze(1)
        # A forbidden token has p = 0 and log p = -inf: leave it out, or its gradient is not a number.
        entropy = -(log_all.exp() * log_all.masked_fill(log_all.isneginf(), 0.0)).sum(-1)
        zeros = torch.zeros(answer.shape, device=self.device)
        return Scores(zeros.masked_scatter(present, chosen), zeros.masked_scatter(present, entropy), present)

    def _allowed(self, tokens: Tokens, records: Sequence[int]) -> list[np.ndarray] | None:
        """Allowed ids of every response token of the records, in order; None where nothing was restricted."""
        if not len(tokens.allowed_ids):
            return None
        first, offset = tokens.response_offset, tokens.allowed_offset
        places = [j for i in records for j in range(first[i], first[i + 1])]
        return [tokens.allowed_ids[offset[j] : offset[j + 1]] for j in places]

    # --- shared --------------------------------------------------------------------------------------------

    def _inputs(
        self,
        ids: Int[Tensor, "b t"],
        mask: Int[Tensor, "b t"],
        images: Sequence[np.ndarray | None],
        backbone: PreTrainedModel,
    ) -> dict[str, Tensor]:
        """What ``backbone`` reads of padded token ids: for text, no more than the ids and their positions."""
        return {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}

    def _restrict(
        self, logits: Float[Tensor, "n v"], sampling: Sampling, allowed: Sequence[Sequence[int]] | None
    ) -> Float[Tensor, "n v"]:
        """The logits that sampling draws from and scoring normalises over."""
        if allowed is not None:
            forbidden = torch.ones(logits.shape, dtype=torch.bool)
            rows = np.repeat(np.arange(len(allowed)), [len(a) for a in allowed])
            forbidden[rows, np.concatenate(allowed).astype(np.int64)] = False
            logits = logits.masked_fill(forbidden.to(logits.device), -torch.inf)
        logits = logits / sampling.temperature
        if sampling.top_k > 0:
            logits = TopKLogitsWarper(sampling.top_k)(None, logits)
        if sampling.top_p < 1:
            logits = TopPLogitsWarper(sampling.top_p)(None, logits)
        return logits

    def _build_trie(self, choices: tuple[str, ...]) -> dict:
        """Nested dicts of token ids that spell the choices, each ended by the end-of-sequence token."""
        root: dict = {}
        for choice in choices:
            node = root
            for token in self.encode_response(choice):
                node = node.setdefault(token, {})
        return root

    def _left_padded(self, rows: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "b p"], Int[Tensor, "b p"]]:
        width = max(map(len, rows))
        pad = self.tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (width - len(r)) + list(r) for r in rows], device=self.device)
        mask = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in rows], device=self.device)
        return ids, mask

    def _right_padded(self, rows: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "b r"], Int[Tensor, "b r"]]:
        width = max(map(len, rows))
        pad = self.tokenizer.pad_token_id
        ids = torch.tensor([list(r) + [pad] * (width - len(r)) for r in rows], device=self.device)
        mask = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in rows], device=self.device)
        return ids, mask

    def frozen_copy(self) -> LanguageModel:
        """The policy as it is now, for good: the reference of a KL term."""
        twin = copy.copy(self)
        twin.model = copy.deepcopy(self.model).eval().requires_grad_(False)
        return twin

    def load_weights(self, folder: Path) -> None:
        """Weights that ``save`` wrote, into the model as it is."""
        loaded = type(self.model).from_pretrained(folder, dtype=torch.float32)
        self.model.load_state_dict(loaded.state_dict())

    def save(self, folder: Path) -> None:
        """A checkpoint that ``transformers`` loads: weights, config and tokenizer."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def without_dropout(model: PreTrainedModel) -> PreTrainedModel:
    """Dropout would make scoring another distribution than sampling, and no resume exact."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name in [n for n, v in vars(module).items() if n.endswith("dropout") and isinstance(v, float)]:
            setattr(module, name, 0.0)
    return model
