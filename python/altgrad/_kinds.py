"""Layers of PyTorch models that are matrix products, as one form: `[groups, tokens, in]` times `[groups, out, in]` transposed.

Linear layers, `Conv1D` of Hugging Face's transformers, and convolutions of width one have this form. All functions return views, or
differentiable copies where the memory has another order.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

# Layers that multiply by their weights in other ways, and the reason why their products are not rounded.
_OTHERS = (
    (nn.MultiheadAttention, "nn.MultiheadAttention reads its weights itself"),
    (nn.Linear, "a subclass of nn.Linear"),
    (nn.modules.conv._ConvNd, "a convolution of another width, or with padding"),
    (nn.RNNBase, "a recurrent layer"),
    (nn.RNNCellBase, "a recurrent layer"),
    (nn.Bilinear, "a bilinear layer"),
)


class Linear:
    """`nn.Linear`: a weight `[out, in]`."""

    @staticmethod
    def fits(layer: nn.Module, x: Tensor) -> bool:
        """True for inputs of the layer's width."""
        return x.shape[-1:] == layer.weight.shape[1:]

    @staticmethod
    def matrix(layer: nn.Module, weight: Tensor) -> Tensor:
        """The weight, or its gradient, as `[groups, out, in]`."""
        return weight.unsqueeze(0)

    @staticmethod
    def rows(layer: nn.Module, x: Tensor) -> Tensor:
        """The input as `[groups, tokens, in]`, or the gradient of the output as `[groups, tokens, out]`."""
        return x.reshape(1, -1, x.shape[-1])

    @staticmethod
    def restored(layer: nn.Module, y: Tensor, x: Tensor) -> Tensor:
        """The output of the layer, whose input was `x`, from `[groups, tokens, out]`."""
        return y.reshape(*x.shape[:-1], y.shape[-1])

    @staticmethod
    def sees(layer: nn.Module, x: Tensor) -> Tensor:
        """The part of the input that the layer reads."""
        return x


class Transposed(Linear):
    """`transformers.pytorch_utils.Conv1D`: a weight `[in, out]`."""

    @staticmethod
    def fits(layer: nn.Module, x: Tensor) -> bool:
        return x.shape[-1:] == layer.weight.shape[:1]

    @staticmethod
    def matrix(layer: nn.Module, weight: Tensor) -> Tensor:
        return weight.t().unsqueeze(0)


class WidthOne(Linear):
    """A convolution of width one without padding: a weight `[groups * out, in, 1, ...]`, inputs `[batch, groups * in, ...]`."""

    @staticmethod
    def fits(layer: nn.Module, x: Tensor) -> bool:
        places = len(layer.stride)
        return x.dim() in (places + 1, places + 2) and x.shape[-places - 1] == layer.in_channels

    @staticmethod
    def matrix(layer: nn.Module, weight: Tensor) -> Tensor:
        return weight.reshape(layer.groups, -1, weight.shape[1])

    @staticmethod
    def rows(layer: nn.Module, x: Tensor) -> Tensor:
        split = x.reshape(x.shape[0], layer.groups, x.shape[1] // layer.groups, -1)
        return split.permute(1, 0, 3, 2).reshape(layer.groups, -1, split.shape[2])

    @staticmethod
    def restored(layer: nn.Module, y: Tensor, x: Tensor) -> Tensor:
        seen = WidthOne.sees(layer, x)
        split = y.reshape(layer.groups, seen.shape[0], -1, y.shape[-1]).permute(1, 0, 3, 2)
        y = split.reshape(seen.shape[0], -1, *seen.shape[2:])
        return y if x.dim() == seen.dim() else y.squeeze(0)

    @staticmethod
    def sees(layer: nn.Module, x: Tensor) -> Tensor:
        places = len(layer.stride)
        if x.dim() == places + 1:
            x = x.unsqueeze(0)
        return x[(..., *(slice(None, None, step) for step in layer.stride))] if max(layer.stride) > 1 else x


def kind_of(layer: nn.Module) -> type[Linear] | None:
    """The form of a layer, None if it has none of these. Subclasses may compute something else."""
    module = sys.modules.get("transformers.pytorch_utils")
    if type(layer) is nn.Linear:
        return Linear
    if module is not None and type(layer) is module.Conv1D:
        return Transposed
    is_convolution = type(layer) in (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    if is_convolution and max(layer.kernel_size) == 1 and layer.padding in ("valid", "same", (0,) * len(layer.stride)):
        return WidthOne
    return None


def reason(layer: nn.Module) -> str | None:
    """Why the products of a layer without a form cannot be rounded; None for a layer that has none that are known."""
    for other, why in _OTHERS:
        if isinstance(layer, other):
            return why
    # Weights of experts. A first extent of 1 is that of positions and other embeddings.
    parameters = layer.named_parameters(recurse=False)
    stacked = [name for name, parameter in parameters if parameter.dim() == 3 and parameter.shape[0] > 1]
    return f"the parameter {stacked[0]} has three dimensions" if stacked else None
