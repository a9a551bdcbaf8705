"""An episode against vLLM: one record for each environment step."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any
from uuid import uuid4

import ray
from PIL import Image
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from bepo.collect import derive_seed
from bepo.envs import IMAGE
from bepo.errors import UserError
from bepo.policies.pretrained import load_tokenizer
from bepo.training.verl.episodes import TASKS, Episode, EpisodeWorkers, Question


class StepLoop(AgentLoopBase):
    """verl makes one for each trajectory. ``run`` answers with a list: verl keeps one record for each element.

    A failure becomes a record that says so, because verl would log an exception and go on without the trajectory.
    """

    def __init__(self, trainer_config, server_manager, tokenizer, processor, **unused: Any) -> None:
        """Without verl's: it prepares for prompts that grow token by token, and ours are written anew at each step."""
        config = trainer_config.config.actor_rollout_ref
        self.max_prompt = config.rollout.prompt_length
        self.server_manager, self.processor = server_manager, processor
        self.tokenizer = _tokenizer(config.model.path)
        if processor is not None:
            processor.tokenizer = self.tokenizer

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        try:
            return await self._play(row)
        except Exception as error:
            logging.getLogger(__name__).exception("episode failed")
            said = str(error).strip().splitlines()[-1] if str(error).strip() else repr(error)
            return [_failed(said, self.tokenizer.eos_token_id)]

    async def _play(self, row: dict[str, Any]) -> list[AgentLoopOutput]:
        group, member, seed = int(row["index"]), int(row["session_id"]), int(row["seed"])
        task, workers = await _task(group, int(row["env_workers"]))
        episode = Episode(workers, f"{row['uid']}-{member}", task, group, member)
        question = await episode.start()
        outputs: list[AgentLoopOutput] = []
        while question is not None:
            sampling = {
                "temperature": float(row["temperature"]),
                "top_p": float(row["top_p"]),
                "top_k": int(row["top_k"]),
                "seed": derive_seed(seed, group, member, len(outputs)),
                "logprobs": True,
            }
            pictures = {} if question.image is None else {"images": [self._picture(question, int(row["min_pixels"]))]}
            prompt = self._encode(question, pictures)
            said = await self.server_manager.generate(
                request_id=uuid4().hex, prompt_ids=prompt, sampling_params=sampling, image_data=pictures.get("images")
            )
            ids = list(said.token_ids)
            text = self.tokenizer.decode(ids, skip_special_tokens=True)
            record, question = await episode.answer(text)
            extra = {**said.extra_fields, "row": record, "restarts": episode.restarts}
            outputs.append(_record(prompt, ids, list(said.log_probs), pictures, extra))
        _finish(outputs)
        return outputs

    def _encode(self, question: Question, pictures: dict[str, list]) -> list[int]:
        """As the policy's own ``encode``. Raises ``UserError`` for a prompt that is too long."""
        if self.processor is None:
            text = self._chat(self.tokenizer, question.prompt)
            ids = self.tokenizer.encode(text, add_special_tokens=False)
        else:
            before, image, after = question.prompt.partition(IMAGE)
            parts = [{"type": "text", "text": before}]
            parts += [{"type": "image"}, {"type": "text", "text": after}] if image else []
            ids = self.processor(text=[self._chat(self.processor, parts)], **pictures)["input_ids"][0]
        if len(ids) > self.max_prompt:
            raise UserError(f"a prompt has {len(ids)} tokens, policy.max_prompt is {self.max_prompt}")
        return list(ids)

    def _picture(self, question: Question, min_pixels: int) -> Image.Image:
        """Enlarged here, once, as the policy's image processor would: verl and vLLM then leave it as it is.

        Raises ``UserError`` where the model has no processor: verl only warns if one does not load.
        """
        if self.processor is None:
            raise UserError("the environment shows pictures, and verl finds no processor of them with the model")
        picture = Image.fromarray(question.image)
        if picture.width * picture.height >= min_pixels:
            return picture
        processor = self.processor.image_processor
        factor = processor.patch_size * processor.merge_size
        height, width = smart_resize(picture.height, picture.width, factor, min_pixels, 4 * min_pixels)
        return picture.resize((width, height), Image.Resampling.BICUBIC)

    @staticmethod
    def _chat(writer, content: str | list[dict[str, str]]) -> str:
        message = [{"role": "user", "content": content}]
        return writer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)


_tokenizer = cache(load_tokenizer)
_workers: EpisodeWorkers | None = None
_tasks = None


async def _task(group: int, n_workers: int):
    global _workers, _tasks
    if _workers is None:
        _workers, _tasks = EpisodeWorkers.find(n_workers), ray.get_actor(TASKS)
    return await _tasks.get.remote(group), _workers


def _record(prompt: list[int], ids: list[int], logprobs: list[float], pictures: dict, extra: dict) -> AgentLoopOutput:
    """verl drops fields that are not set, and wants the same ones in every record: all are set here."""
    return AgentLoopOutput(
        prompt_ids=prompt,
        response_ids=ids,
        response_mask=[1] * len(ids),
        response_logprobs=logprobs,
        multi_modal_data=pictures,
        reward_score=0.0,
        num_turns=2,
        metrics=AgentLoopMetrics(),
        extra_fields=extra,
    )


def _finish(outputs: list[AgentLoopOutput]) -> None:
    """verl copies the last record's score to the others of the trajectory; per-step rewards are in the rows."""
    last = outputs[-1]
    last.reward_score = float(sum(o.extra_fields["row"]["r"] for o in outputs))
    last.extra_fields["reward_extra_info"] = {"acc": float(last.extra_fields["row"]["done"] == "SUCCESS")}


def _failed(said: str, eos: int) -> AgentLoopOutput:
    extra = {"failure": said, "reward_extra_info": {"acc": 0.0}}
    return _record([eos], [eos], [0.0], {}, extra)
