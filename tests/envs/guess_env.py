"""A multi-turn environment of verifiers: guess a number from 0 to 9."""

import verifiers as vf
from datasets import Dataset


class Guess(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        said = str(messages[-1].content).strip()
        if said == state["answer"]:
            state["final_env_response"] = [{"role": "user", "content": "Right."}]
            return state["final_env_response"]
        return [{"role": "user", "content": "Wrong, guess again."}]


async def solved(state, **kwargs):
    return 1.0 if state.get("final_env_response") else 0.0


def load_environment(rows=600, max_turns=4, **kwargs):
    texts = [{"question": f"Riddle {n}: guess a number from 0 to 9.", "answer": str(n % 10)} for n in range(rows)]
    rubric = vf.Rubric(funcs=[solved])
    return Guess(
        dataset=Dataset.from_list(texts), rubric=rubric, max_turns=max_turns, system_prompt="Be brief.", **kwargs
    )
