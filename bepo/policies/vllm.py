"""A checkpoint that vLLM serves for the time of an evaluation: ``policy=vllm policy.path=...``."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from bepo.core.errors import GPU_ENVIRONMENT, Missing, UserError
from bepo.core.settings import setting
from bepo.policies import register
from bepo.policies.pretrained import has_generic_tokenizer
from bepo.policies.served import ServedPolicy
from bepo.policies.serving.vllm_server import vllm_server
from bepo.store.files import read_object


@register
@dataclass
class Vllm(ServedPolicy):
    """Starts ``vllm serve`` on a free port of this machine, and stops it. Its weights are known by their path."""

    name: Literal["vllm"] = "vllm"
    path: str = "Qwen/Qwen2.5-1.5B-Instruct"
    """A folder with a checkpoint that vLLM can load, or a name on the model hub."""
    seeded: bool = True
    """Send each request a seed of its own, derived from the evaluation seed."""
    arguments: list[str] = setting(factory=list, identity=False)
    """Further arguments of ``vllm serve``, ``["--tensor-parallel-size=2"]``: where and how fast it runs."""
    command: str = setting("vllm", identity=False)
    """The program, of this Python's environment or on the PATH; by its path where it is in another environment."""
    patience: float = setting(1200.0, above=0, identity=False)
    """Seconds that the server may take to start."""
    concurrency: int = setting(64, at_least=1, identity=False)
    """So many requests are under way at a time."""

    method_version: ClassVar[int] = 2

    @property
    def weights(self) -> str:
        """The folder of the weights, or their name on the model hub."""
        return self.path

    @property
    def served_model(self) -> str:
        """The model as requests name it: its path."""
        return self.path

    @property
    def program(self) -> str | None:
        """The path of the program; None where there is none."""
        places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        return shutil.which(self.command, path=os.pathsep.join(places))

    def missing(self) -> Missing | None:
        """Return that the program is not there."""
        if self.program:
            return None
        return Missing(f"policy=vllm: there is no program {self.command}", GPU_ENVIRONMENT)

    @contextmanager
    def endpoint(self, folder: Path) -> Iterator[str]:
        """Start the server, yield its base URL, and stop it. What it prints is in ``vllm.txt`` of the run's folder.

        Requests say how they are sampled; what ``generation_config.json`` of a checkpoint says besides is left out.
        """
        if missing := self.missing():
            raise missing
        self._check_path()
        with _tokenizer(self.path) as tokenizer:
            length = self.max_prompt_length + self.max_response_length
            how = ["--max-model-len", str(length), "--generation-config", "vllm", *tokenizer]
            command = [str(self.program), "serve", self.path, *how, *self.arguments]
            with vllm_server(command, folder, self.patience) as url:
                yield url

    def _check_path(self) -> None:
        """Raise ``UserError`` for a folder without a checkpoint: vLLM takes long to say so."""
        path = Path(self.path)
        if path.is_dir() and not (path / "config.json").exists():
            raise UserError(f"policy.path={self.path!r}: not a folder with a checkpoint (there is no config.json)")
        if not path.exists() and (path.is_absolute() or len(path.parts) > 2):  # the model hub has owner/name
            raise UserError(f"policy.path={self.path!r}: there is no such folder")


@contextmanager
def _tokenizer(path: str) -> Iterator[list[str]]:
    """Yield the arguments that let vLLM load a tokenizer as it was saved.

    Beside a Qwen2 model AutoTokenizer loads another one (``bepo.policies.pretrained.load_tokenizer``), beside a Qwen3
    model it does not.
    """
    config = Path(path) / "config.json"
    if not has_generic_tokenizer(path) or read_object(config, "config").get("model_type") != "qwen2":
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="bepo-tokenizer-") as copy:
        for pattern in ("tokenizer*", "special_tokens*", "chat_template*"):
            for file in Path(path).glob(pattern):
                shutil.copy(file, copy)
        (Path(copy) / config.name).write_text('{"model_type": "qwen3"}', encoding="utf-8")
        yield ["--tokenizer", copy]
