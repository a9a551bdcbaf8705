"""Training, sweeps and evaluations from Python: ``bepo.train``, ``bepo.sweep`` and ``bepo.evaluate``.

They take the overrides of the command line as keywords, ``credit="grpo"``, or as strings, ``"credit.gamma=0.9"``. Runs
have the same IDs and folders as those of the commands, so a complete run is not repeated.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bepo import evaluate as evaluate_command
from bepo.core.errors import UserError
from bepo.core.places import CONF
from bepo.explore.frames import Runs
from bepo.runs.compose import register, to_config
from bepo.runs.config import Config, identity_of
from bepo.runs.texts import is_plain
from bepo.store.find import find_run
from bepo.store.run_files import read_run
from bepo.store.runs import RunFolder, run_id
from bepo.sweep.composition import compose_with_hydra
from bepo.sweep.plan import plan_runs
from bepo.sweep.studies import compose_study, config_errors, study_names
from bepo.sweep.trials import RUNS, counted_trials, find_study

_PLAIN = re.compile(r"[\w./+:@-]+")  # a word of Hydra's grammar, if it is not a number, a truth value or null
_SWEEP = re.compile(r"(?=.*,)[\w./+:@,-]+|\w+\(.*\)")  # "grpo,ppo" and "range(8)"


def train(*overrides: str, **settings: Any) -> Runs:
    """Train an agent, and return the run.

    ``bepo.train(credit="grpo", env="sokoban", tier="smoke", seed=0)`` is ``bepo train credit=grpo env=sokoban ...``; a
    setting of a part is a string, ``bepo.train("credit.gamma=0.9", "updates=20")``, or ``**{"credit.gamma": 0.9}``.

    The result has ``.metrics``, ``.episodes``, ``.transcripts`` (pandas tables) and ``.rollouts()`` (a
    ``RolloutBatch``); ``.runs`` has the success rate and the folder. Raises ``UserError`` for a wrong setting.
    """
    from bepo.runs.train import train as make_run

    words = overrides_of(overrides, settings)
    with config_errors("bepo.train", words):
        register(words)
        config = to_config(compose_with_hydra(CONF, "train", words))
    if config.is_evaluation:
        raise UserError("updates=0: must be at least 1 for training; bepo.evaluate evaluates a policy")
    make_run(config, words)
    return _run_of(config)


def evaluate(*overrides: str, **settings: Any) -> Runs:
    """Evaluate a policy without training, and return the run of the evaluation.

    ``bepo.evaluate(env="sokoban", tier="laptop")`` evaluates the policy that a training would start from,
    ``bepo.evaluate(run="5d43bbcc9bce")`` that of a finished run. Overrides and result are those of ``bepo.train``.
    """
    from bepo.runs.evaluate import evaluate as play

    words = overrides_of(overrides, settings)
    with config_errors("bepo.evaluate", words):
        register(words)
        config = evaluate_command.configured(compose_with_hydra(CONF, "evaluate", words), words)
    play(config, words)
    return _run_of(config)


def sweep(*studies: str, jobs: int | None = None, **settings: Any) -> Runs:
    """Train what is missing of studies, and return all their runs.

    ``bepo.sweep("gate_form", "seed=0,1", tier="smoke")`` is ``bepo sweep gate_form seed=0,1 tier=smoke``: strings with
    ``=`` are overrides, others names of studies. ``jobs``: runs at a time, by default one per core. The runs of an
    Optuna study are those of its complete trials.

    The work is done by another process, whose output is printed. Raises ``UserError`` for a wrong setting, and after a
    failed run; the runs that are complete stay, and the same call goes on from there.
    """
    names = [word for word in studies if "=" not in word]
    words = overrides_of([word for word in studies if "=" in word], settings)
    register(words)
    if not names:
        raise UserError(f"bepo.sweep: name at least one study; choices: {', '.join(study_names())}")
    planned = [compose_study(name, words) for name in names]
    _run_sweep([*names, *words, *([] if jobs is None else [f"--jobs={jobs}"])])
    ids = [run.id for run in plan_runs([study for study in planned if not study.is_tuning])]
    tunings = [study for study in planned if study.is_tuning]
    ids += [key for study in tunings for trial in counted_trials(find_study(study)) for key in _runs_of_trial(trial)]
    results = Path(planned[0].config.results)
    return Runs([find_run(key, results) for key in dict.fromkeys(ids)])


def overrides_of(overrides: Sequence[str], settings: dict[str, Any]) -> list[str]:
    """Return overrides as the command line has them: ``tier="smoke", seed=0`` is ``["tier=smoke", "seed=0"]``."""
    return [*overrides, *(f"{name}={_text(value)}" for name, value in settings.items())]


def _text(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{_text(item)}' for key, item in value.items())}}}"
    text = str(value)
    if not isinstance(value, str | Path) or _SWEEP.fullmatch(text) or (_PLAIN.fullmatch(text) and is_plain(text)):
        return text
    return f"'{_quoted(text)}'"


def _quoted(text: str) -> str:
    return re.sub(r"(\\*)'", r"\1\1\\'", text)


def _run_of(config: Config) -> Runs:
    return Runs([read_run(RunFolder(Path(config.results), run_id(identity_of(config))).path)])


def _runs_of_trial(trial: Any) -> list[str]:
    return trial.user_attrs.get(RUNS, []) if trial.state.name == "COMPLETE" else []


def _run_sweep(arguments: Sequence[str]) -> None:
    """Run the command and print its output as it comes. Ctrl-C is passed on, so that started runs can continue."""
    command = [sys.executable, "-m", "bepo.sweep", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "encoding": "utf-8"}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            print(process.communicate()[0], end="", flush=True)
            raise
    if process.returncode:
        raise UserError(
            f"bepo.sweep {' '.join(arguments)}: ended with status {process.returncode}; see the lines above"
        )
