"""A checkpoint that vLLM serves during an evaluation: ``policy=vllm policy.path=...``."""

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
from bepo.store.json_files import read_object


@register
@dataclass
class Vllm(ServedPolicy):
    """Starts ``vllm serve`` on a free port of this machine, and stops it. The path identifies the weights."""

    name: Literal["vllm"] = "vllm"
    path: str = "Qwen/Qwen2.5-1.5B-Instruct"
    """A folder with a checkpoint that vLLM can load, or a name on the model hub."""
    seeded: bool = True
    """Whether to send a seed with each request, derived from the evaluation seed."""
    arguments: list[str] = setting(factory=list, identity=False)
    """Further arguments of ``vllm serve``, such as ``["--tensor-parallel-size=2"]``. They must not change answers."""
    command: str = setting("vllm", identity=False)
    """The program: a name in this Python's environment or on the PATH, or the path of a program elsewhere."""
    patience: float = setting(1200.0, above=0, identity=False)
    """Timeout for the start of the server, in seconds."""
    concurrency: int = setting(64, at_least=1, identity=False)
    """Maximum number of simultaneous requests."""

    method_version: ClassVar[int] = 2

    @property
    def weights(self) -> str:
        """The folder of the weights, or their name on the model hub."""
        return self.path

    @property
    def served_model(self) -> str:
        """The name of the model in requests: its path."""
        return self.path

    @property
    def program(self) -> str | None:
        """The path of the program; None if it is not found."""
        places = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        return shutil.which(self.command, path=os.pathsep.join(places))

    def missing(self) -> Missing | None:
        """Return ``Missing`` if the program is not found, else None."""
        if self.program:
            return None
        return Missing(f"policy=vllm: program {self.command} not found", GPU_ENVIRONMENT)

    @contextmanager
    def endpoint(self, folder: Path) -> Iterator[str]:
        """Start the server, yield its base URL, and stop it. Its log is ``vllm.txt`` in the run's folder.

        Requests set the sampling parameters; the checkpoint's ``generation_config.json`` is ignored.
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
        """Raise ``UserError`` for a folder without a checkpoint, because vLLM takes long to fail."""
        path = Path(self.path)
        if path.is_dir() and not (path / "config.json").exists():
            raise UserError(f"policy.path={self.path!r}: not a folder with a checkpoint (there is no config.json)")
        if not path.exists() and (path.is_absolute() or len(path.parts) > 2):  # the model hub has owner/name
            raise UserError(f"policy.path={self.path!r}: no such folder")


@contextmanager
def _tokenizer(path: str) -> Iterator[list[str]]:
    """Yield the arguments that make vLLM load a tokenizer as it was saved.

    AutoTokenizer loads another tokenizer for a Qwen2 checkpoint (``bepo.policies.pretrained.load_tokenizer``), but not
    for a Qwen3 checkpoint.
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
