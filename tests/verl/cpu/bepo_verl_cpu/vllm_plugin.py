"""A plug-in of vLLM's CPU build (entry point in pyproject.toml): it keeps weights as they are loaded.

The build packs the weight of each linear layer for oneDNN and leaves an empty parameter behind, into which no new
weights from training can be loaded. Plain ``torch.nn.functional.linear`` reads the weight where it is.
"""

from __future__ import annotations


def register() -> None:
    """Replace vLLM's choice of a kernel for linear layers."""
    import torch
    import vllm.model_executor.layers.utils as layers

    def use_linear(layer: torch.nn.Module, remove_weight: bool) -> None:
        if layer.weight.ndim == 2 or layer.weight.is_meta:
            layer.cpu_linear = torch.nn.functional.linear

    layers.dispatch_cpu_unquantized_gemm = use_linear
