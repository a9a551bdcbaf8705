"""An episode with vLLM as verl's agent loop: one transition for each environment step."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any
from uuid import uuid4

import numpy as np
import ray
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from bepo.core.batch import Terminal
from bepo.core.errors import UserError
from bepo.core.seeds import derive_seed
from bepo.envs import IMAGE, Task
from bepo.policies.lm.chat import Chat
from bepo.policies.pretrained import load_tokenizer
from bepo.rollouts.collect import Overlong
from bepo.training.verl.episodes import TASKS, Episode, EpisodeWorkers, Prompt
from bepo.training.verl.patches import patch_episodes

patch_episodes()  # verl imports this file in the processes that run episodes


class StepLoop(AgentLoopBase):
    """Runs one trajectory; verl makes one loop for each. Each element that ``run`` returns is one transition for verl.

    An episode ends as a truncation if its next prompt is too long; the first prompt must fit. A failure is returned as
    a transition, because verl would only log an exception and continue without the trajectory.
    """

    def __init__(self, trainer_config, server_manager, tokenizer, processor, **unused: Any) -> None:
        """Keep the parts of verl that a step needs.

        verl's own ``__init__`` is not called: it prepares prompts that grow token by token, but here each step has a
        new prompt.
        """
        config = trainer_config.config.actor_rollout_ref
        self.max_prompt_length = config.rollout.prompt_length
        self.server_manager, self.processor = server_manager, processor
        self.tokenizer = _tokenizer(config.model.path)
        if processor is not None:
            processor.tokenizer = self.tokenizer

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        """Run the trajectory of ``row``, and return its transitions.

        ``row`` has the columns of ``StagedTrainer.roll_out``. Its sampling settings replace verl's.
        """
        try:
            return await self._play(row)
        except Exception as error:
            logging.getLogger(__name__).exception("episode failed")
            lines = str(error).strip().splitlines()
            end_token: Any = self.tokenizer.eos_token_id  # in its stub it may also be text
            return [_failed(lines[-1] if lines else repr(error), end_token)]

    async def _play(self, row: dict[str, Any]) -> list[AgentLoopOutput]:
        group, member, seed = int(row["index"]), int(row["session_id"]), int(row["seed"])
        task, workers = await _task(group, int(row["env_workers"]))
        episode = Episode(workers, f"{row['uid']}-{member}", task, group, member, row["needs"].split(","))
        try:
            return await self._answered(episode, row, group, member, seed)
        except BaseException:
            await episode.drop()
            raise

    async def _answered(
        self, episode: Episode, row: dict[str, Any], group: int, member: int, seed: int
    ) -> list[AgentLoopOutput]:
        """Answer the prompts of an episode to its end."""
        first = await episode.start()
        reads = None if first is None else self._read(first, int(row["min_pixels"]))
        outputs: list[AgentLoopOutput] = []
        while reads is not None:
            prompt_ids, pictures = reads
            response = await self.server_manager.generate(
                request_id=uuid4().hex,
                prompt_ids=prompt_ids,
                sampling_params=_sampling(row, derive_seed(seed, group, member, len(outputs))),
                image_data=pictures.get("images"),
            )
            ids = list(response.token_ids)
            text: Any = self.tokenizer.decode(ids, skip_special_tokens=True)  # in its stub it may also be a list
            transition, prompt = await episode.step(text)
            try:
                reads = None if prompt is None else self._read(prompt, int(row["min_pixels"]))
            except Overlong:
                reads, transition["done"] = None, Terminal.TRUNCATION.name
                await episode.drop()
            extra = {**response.extra_fields, "row": transition, "restarts": episode.restarts}
            outputs.append(_output(prompt_ids, ids, list(response.log_probs), pictures, extra))
        _finish(outputs)
        return outputs

    def _read(self, prompt: Prompt, min_pixels: int) -> tuple[list[int], dict[str, list]]:
        """Return a prompt's token IDs, and its pictures. Raises ``Overlong``."""
        pictures = {} if prompt.image is None else {"images": [self._picture(prompt.image, min_pixels)]}
        return self._encode(prompt, pictures), pictures

    def _encode(self, prompt: Prompt, pictures: dict[str, list]) -> list[int]:
        """Return the same token IDs as the policy's own ``encode``.

        Raises ``Overlong`` for a prompt of more than ``max_prompt_length`` tokens.
        """
        chat = _chat(self.tokenizer, self.processor)
        if self.processor is None:
            ids = chat.ids(prompt.text)
        else:
            before, image, after = prompt.text.rpartition(IMAGE)
            parts = [{"type": "text", "text": before}, {"type": "image"}] if image else []
            parts += [{"type": "text", "text": after}]
            if chat.has_controls(before + after):
                ids = self._as_text(chat, parts, pictures)
            else:
                ids = self.processor(text=[chat.written(parts)], **pictures)["input_ids"][0]
        if len(ids) > self.max_prompt_length:
            raise Overlong(f"a prompt has {len(ids)} tokens, policy.max_prompt_length is {self.max_prompt_length}")
        return list(ids)

    def _picture(self, image: np.ndarray, min_pixels: int) -> Image.Image:
        """Return the picture, enlarged like the policy's image processor does, so that verl and vLLM do not change it.

        Raises ``UserError`` if the model has no processor: verl only warns if it does not load.
        """
        if self.processor is None:
            raise UserError("the environment shows pictures, but verl finds no image processor for the model")
        picture = Image.fromarray(image)
        if picture.width * picture.height >= min_pixels:
            return picture
        processor = self.processor.image_processor
        factor = processor.patch_size * processor.merge_size
        height, width = smart_resize(picture.height, picture.width, factor, min_pixels, 4 * min_pixels)
        return picture.resize((width, height), Image.Resampling.BICUBIC)

    def _as_text(self, chat: Chat, parts: list[dict[str, str]], pictures: dict[str, list]) -> list[int]:
        """Return the IDs of a prompt whose texts have the words of control tokens, which the processor would read."""
        ids = chat.ids(parts)
        if not pictures:
            return ids
        picture: Any = self.tokenizer.convert_tokens_to_ids(self.processor.image_token)  # in its stub also a list
        alone = self.processor(text=[chat.written([{"type": "image"}])], **pictures)["input_ids"][0]
        place = ids.index(picture)
        return ids[:place] + [picture] * list(alone).count(picture) + ids[place + 1 :]


_tokenizer = cache(load_tokenizer)
_chat = cache(Chat)
_workers: EpisodeWorkers | None = None  # looked up once in each process
_tasks: Any = None


async def _task(group: int, n_workers: int) -> tuple[Task, EpisodeWorkers]:
    """Return the task of a group, and the environment workers."""
    global _workers, _tasks
    if _workers is None:
        _workers, _tasks = EpisodeWorkers.find(n_workers), ray.get_actor(TASKS)
    return await _tasks.get.remote(group), _workers


def _sampling(row: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return vLLM's sampling settings for one request, with a separate seed if the row asks for it."""
    settings = {name: float(row[name]) for name in ("temperature", "top_p")}
    settings |= {"top_k": int(row["top_k"]), "logprobs": True}
    return settings | ({"seed": seed} if row["request_seeds"] else {})


def _output(
    prompt_ids: list[int], response_ids: list[int], logprobs: list[float], pictures: dict[str, list], extra: dict
) -> AgentLoopOutput:
    """Return a transition for verl.

    All fields are set, because verl drops unset fields, but needs the same fields in every transition.
    """
    return AgentLoopOutput(
        prompt_ids=prompt_ids,
        response_ids=response_ids,
        response_mask=[1] * len(response_ids),
        response_logprobs=logprobs,
        multi_modal_data=pictures,
        reward_score=0.0,
        num_turns=2,
        metrics=AgentLoopMetrics(),
        extra_fields=extra,
    )


def _finish(outputs: list[AgentLoopOutput]) -> None:
    """Write return and success into the last transition; verl copies them to the trajectory's other transitions.

    Only verl reads them: bepo has the reward of each step in its row.
    """
    last = outputs[-1]
    last.reward_score = float(sum(o.extra_fields["row"]["r"] for o in outputs))
    last.extra_fields["reward_extra_info"] = {"acc": float(last.extra_fields["row"]["done"] == "SUCCESS")}


def _failed(reason: str, end_token: int) -> AgentLoopOutput:
    """Return a transition of one token with the reason why the episode failed."""
    extra = {"failure": reason, "reward_extra_info": {"acc": 0.0}}
    return _output([end_token], [end_token], [0.0], {}, extra)
