"""A plug-in of vLLM (entry point in pyproject.toml): on a CPU it keeps weights as they are loaded.

vLLM's CPU build packs the weight of each linear layer for oneDNN and leaves an empty parameter behind, into which no
new weights from training can be loaded. Plain ``torch.nn.functional.linear`` reads the weight where it is.
"""

from __future__ import annotations


def register() -> None:
    """Replace vLLM's choice of a kernel for linear layers, where vLLM runs on a CPU."""
    import torch
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    import vllm.model_executor.layers.utils as layers

    def use_linear(layer: torch.nn.Module, remove_weight: bool) -> None:
        if layer.weight.ndim == 2 or layer.weight.is_meta:
            layer.cpu_linear = torch.nn.functional.linear  # pyright: ignore[reportArgumentType] (no parameter)

    layers.dispatch_cpu_unquantized_gemm = use_linear
