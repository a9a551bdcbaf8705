"""Low-rank adapters of a language model in this process, by peft. A folder of adapters is peft's own format."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from bepo.core.errors import Missing, UserError
from bepo.policies import ADAPTER_CONFIG, LoRA
from bepo.store.json_files import read_object


def add_adapters(model: transformers.PreTrainedModel, settings: LoRA) -> None:
    """Put new adapters into a model and freeze all other weights. Until they are trained, its outputs stay the same.

    Raises ``Missing`` without peft, and ``UserError`` for names of layers that the model does not have.
    """
    try:
        import peft
    except ImportError as error:
        raise Missing("adapters need peft, which is not installed", "pip install 'bepo[pretrained]'") from error
    linear = linear_layers(model)
    if unknown := sorted(set(settings.modules) - set(linear)):
        raise UserError(f"policy.lora.modules={unknown}: no such linear layer; choices: {', '.join(linear)}")
    n = int(model.config.get_text_config().num_hidden_layers)
    if settings.layers > n:
        raise UserError(f"policy.lora.layers={settings.layers}: the model has {n} layers")
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=settings.modules or linear,
        layers_to_transform=list(range(n - settings.layers, n)) if settings.layers else None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model.add_adapter(config)
    added: Any = model.peft_config["default"]  # pyright: ignore[reportArgumentType] (transformers declares no keys)
    # The order of a set differs between processes, and so would the digest of the saved file.
    added.target_modules = sorted(added.target_modules)


def save_adapters(model: transformers.PreTrainedModel, base: str, folder: Path) -> None:
    """Write the adapters of a model as a folder of peft, which names the weights below them ``base``."""
    model.save_pretrained(folder)
    # transformers has named the folder of this machine. Before saving, peft would look for ``base`` on the model hub.
    file = folder / ADAPTER_CONFIG
    config = read_object(file, "peft config") | {"base_model_name_or_path": base}
    file.write_text(json.dumps(config, indent=2, sort_keys=True), encoding="utf-8")


def linear_layers(model: nn.Module) -> list[str]:
    """Return the last parts of the names of all linear layers but the head, sorted."""
    named = {name.rpartition(".")[2] for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    return sorted(named - {"lm_head"})


def load_adapters(model: transformers.PreTrainedModel, folder: Path) -> None:
    """Replace the weights of a model's adapters by those of a folder of peft. Raises ``UserError`` for other ones."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    file = folder / "adapter_model.safetensors"
    if not file.exists():
        raise UserError(f"{folder}: not a folder of adapters ({file.name} is missing)")
    result = set_peft_model_state_dict(model, load_file(file))
    missing = [name for name in result.missing_keys if "lora_" in name]
    if missing or result.unexpected_keys:
        raise UserError(f"{folder}: its adapters do not fit policy.lora ({[*missing, *result.unexpected_keys][0]})")


def save_merged(weights: str, adapters: Path, folder: Path) -> None:
    """Write a checkpoint for transformers with the weights at ``weights`` and a folder of adapters added to them."""
    import peft

    base = transformers.AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32)
    peft.PeftModel.from_pretrained(base, adapters).merge_and_unload().save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(adapters).save_pretrained(folder)


def copy_sharing_frozen(module: nn.Module) -> nn.Module:
    """Return a copy of a module in which frozen weights are the same tensors, not copies."""
    return copy.deepcopy(module, {id(p): p for p in module.parameters() if not p.requires_grad})


def frozen_layers(model: transformers.PreTrainedModel) -> int:
    """Return the number of decoder layers below the first trained weight; 0 if the embedding is trained."""
    decoder: Any = model.base_model  # transformers' stubs do not declare its submodules
    if any(p.requires_grad for p in decoder.get_input_embeddings().parameters()):
        return 0
    layers = list(decoder.layers)
    trained = [i for i, layer in enumerate(layers) if any(p.requires_grad for p in layer.parameters())]
    return trained[0] if trained else 0
