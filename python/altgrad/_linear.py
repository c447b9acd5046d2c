"""Layers whose operands are rounded in the three products of a step, as operations that `torch.compile` does not look into.

The definitions are those of altgrad's training: docs/numerics.md, section 5.2.
"""

from __future__ import annotations

import itertools
import warnings
import weakref
from typing import Any, Optional

import torch
from torch import Tensor, nn

from . import _kinds
from ._casts import Recipe
from ._uses import Bits, Uses

# What calls of a layer do besides its forward pass.
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_TYPES = (torch.float32, torch.bfloat16, torch.float16)

# Operations of PyTorch take numbers, not objects: the layers by number.
_layers: weakref.WeakValueDictionary[int, QuantLayer] = weakref.WeakValueDictionary()
_numbers = itertools.count()


@torch.library.custom_op("altgrad::linear", mutates_args=())
def _linear(
    x: Tensor, weight: Tensor, bias: Optional[Tensor], layer: int, dtype: torch.dtype, records: bool, tracked: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`x W^T + bias` of `[groups, tokens, in]` and `[groups, out, in]`, summed in float32; then what the backward pass needs: the values
    of both operands, where their estimators block gradients, and the step."""
    own = _layers[layer]
    bits = own._begin(records, tracked)
    kept, blocked = [], []
    with torch.autocast(x.device.type, enabled=False):
        for name, tensor in (("activation", x), ("weight", weight)):
            values, where = own._uses[name].round(tensor.flatten(0, 1), bits, records)
            kept.append(values)
            blocked.append(_nothing(x, torch.bool) if where is None else where)
        product = kept[0].view(x.shape) @ kept[1].view(weight.shape).mT
        if bias is not None:
            product += bias.view(weight.shape[0], 1, -1)
    # Results may not share memory with arguments, so unrounded operands are kept as they are.
    rounded = [own._uses[name].cast is not None for name in ("activation", "weight")]
    kept = [values if is_rounded else _nothing(x) for values, is_rounded in zip(kept, rounded)]
    return product.to(dtype), *kept, *blocked, torch.tensor(bits.step)


def _nothing(x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    return x.new_empty(0, dtype=dtype)


@_linear.register_fake
def _(x, weight, bias, layer, dtype, records, tracked):
    uses = _layers[layer]._uses

    def flat(name: str, tensor: Tensor, is_kept: bool, dtype: torch.dtype) -> Tensor:
        return tensor.new_empty(tensor.flatten(0, 1).shape if is_kept else 0, dtype=dtype)

    operands = (("activation", x), ("weight", weight))
    kept = [flat(name, tensor, uses[name].cast is not None, torch.float32) for name, tensor in operands]
    blocked = [flat(name, tensor, uses[name].estimates, torch.bool) for name, tensor in operands]
    product = x.new_empty((*x.shape[:2], weight.shape[1]), dtype=dtype)
    return product, *kept, *blocked, torch.empty((), dtype=torch.int64)


@torch.library.custom_op("altgrad::linear_backward", mutates_args=())
def _linear_backward(
    gradient: Tensor,
    x: Optional[Tensor],
    weight: Optional[Tensor],
    kept: list[Tensor],
    step: Tensor,
    layer: int,
    shapes: list[int],
    needed: list[bool],
    records: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `altgrad::linear` in float32, empty where they are not needed. `shapes`: groups, tokens, out and in."""
    own = _layers[layer]
    own._is_open = False
    uses, bits = own._uses, own._bits(int(step))
    x_values, w_values, x_blocked, w_blocked = kept
    groups, tokens, out, width = shapes
    dx, dw, db = (_nothing(gradient) for _ in needed)
    with torch.autocast(gradient.device.type, enabled=False):
        gradient = gradient.float()
        g = uses["grad"].round(gradient.flatten(0, 1), bits, records)[0].view(groups, tokens, out)
        if needed[0]:
            first = weight.float() if uses["weight"].cast is None else w_values.view(groups, out, width)
            dx = (g @ uses.second("weight_dgrad", weight, first, bits, records)).flatten(0, 1)
            dx = uses["activation"].gradient(dx, x_blocked if x_blocked.numel() else None, bits)
        if needed[1]:
            first = x.float() if uses["activation"].cast is None else x_values.view(groups, tokens, width)
            second = uses.second("activation_wgrad", x, first, bits, records)
            dw = (uses.second("grad_wgrad", gradient, g, bits, records).mT @ second).flatten(0, 1)
            dw = uses["weight"].gradient(dw, w_blocked if w_blocked.numel() else None, bits)
            dw = uses["weight_grad"].round(dw, bits, records)[0]
        if needed[2]:
            db = gradient.sum(1).flatten()
    found = zip((dx, dw, db), _sizes(shapes), needed)
    dx, dw, db = (part.view(size) if is_needed else part for part, size, is_needed in found)
    return dx, dw, db


def _sizes(shapes: list[int]) -> tuple[tuple[int, ...], ...]:
    """The shapes of the gradients of input, weight and bias."""
    groups, tokens, out, width = shapes
    return (groups, tokens, width), (groups, out, width), (groups * out,)


@_linear_backward.register_fake
def _(gradient, x, weight, kept, step, layer, shapes, needed, records):
    found = zip(_sizes(shapes), needed)
    return tuple(gradient.new_empty(size if is_needed else 0, dtype=torch.float32) for size, is_needed in found)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, bias, layer, _, records, _ = inputs
    _, *kept, step = output
    # The backward pass may come when nothing else needs the layer.
    own = _layers[layer]
    uses = own._uses
    # Of the two forms of an operand, a second use needs one.
    needs_x = uses["activation"].cast is None or uses["activation_wgrad"].source == "hp"
    needs_w = uses["weight"].cast is None or uses["weight_dgrad"].source == "hp"
    ctx.save_for_backward(x if needs_x else None, weight if needs_w else None, *kept, step)
    ctx.about = own, [*x.shape[:2], *weight.shape[1:]], [x.dtype, weight.dtype, (weight if bias is None else bias).dtype], records
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, gradient: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if gradient is None:
        return (None,) * 7
    x, weight, *kept, step = ctx.saved_tensors
    own, shapes, types, records = ctx.about
    needed = list(ctx.needs_input_grad[:3])
    found = _linear_backward(gradient, x, weight, kept, step, own._number, shapes, needed, records)
    found = zip(found, types, needed)
    return *(part.to(dtype) if is_needed else None for part, dtype, is_needed in found), None, None, None, None


_linear.register_autograd(_backward, setup_context=_setup)


class QuantLayer(nn.Module):
    """A layer of a model whose operands are rounded: `from_layer` makes it of a linear layer, of `Conv1D` of Hugging Face's
    transformers, or of a convolution of width one. What is said of QuantLinear applies."""

    _kind: type[_kinds.Linear]

    @classmethod
    def from_layer(cls, layer: nn.Module, *, recipe: Recipe | str, name: str = "", seed: int = 0) -> QuantLayer:
        """A layer with the parameters of `layer`, which both share, in the same mode. Raises ValueError for another layer, and for
        one with hooks, which the new layer would not call."""
        kind = _kinds.kind_of(layer)
        if kind is None:
            raise ValueError(f"the products of {name or type(layer).__name__!r} cannot be rounded: {_kinds.reason(layer)}")
        if any(getattr(layer, hooks) for hooks in _HOOKS) or "forward" in layer.__dict__:
            raise ValueError(
                f"the layer {name!r} has hooks, which the quantized layer does not call\n"
                "hint: remove the hooks, and register them at the quantized layer"
            )
        made = QuantLinear if kind is _kinds.Linear and cls is QuantLayer else cls
        own = made.__new__(made)
        nn.Module.__init__(own)
        known = own.__dict__
        own.__dict__ |= {key: value for key, value in layer.__dict__.items() if key not in known}
        own.training, own.weight, own.bias = layer.training, layer.weight, layer.bias
        own._quantize(kind, recipe, name, seed)
        return own

    def _quantize(self, kind: type[_kinds.Linear], recipe: Recipe | str, name: str, seed: int) -> None:
        recipe = Recipe(recipe) if isinstance(recipe, str) else recipe
        self._uses, self._kind, self._name = Uses(recipe, name), kind, name
        self.seed, self.step = seed, 0
        # Numbers of the layer's weight among the parameters of a model, and of its first rounded operand among those of all layers.
        self._parameter, self._first_site = 0, 0
        self._register()

    def _register(self) -> None:
        self._number, self._is_open = next(_numbers), False
        _layers[self._number] = self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._register()

    def _bits(self, step: int) -> Bits:
        return Bits(self.seed, step, self._parameter, self._first_site)

    def _begin(self, records: bool, tracked: bool) -> Bits:
        """The random bits of a forward pass. `records`: it is a step; `tracked`: a backward pass may follow."""
        bits = self._bits(self.step)
        if records:
            self.step += 1
            is_repeated = torch._C._current_graph_task_id() != -1 or (tracked and self._is_open)
            if is_repeated and self._uses.depends_on_steps:
                warnings.warn(
                    f"the layer {self._name!r} ran again before its backward pass, such as by torch.utils.checkpoint: each run counts as a "
                    "step, so that random bits and delayed scales of the backward pass are those of another step",
                    stacklevel=2,
                )
            self._is_open = tracked
        return bits

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor) or x.dtype not in _TYPES:
            found = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"expected a tensor of float32, bfloat16 or float16, got {found}")
        kind, device = self._kind, x.device.type
        if not kind.fits(self, x):
            raise ValueError(f"the layer's weight has the shape {tuple(self.weight.shape)}, its input {tuple(x.shape)}")
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        tracked = torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad)
        rows, matrix = kind.rows(self, kind.sees(self, x)), kind.matrix(self, self.weight)
        self._uses.check_sizes(rows.shape[1], matrix.shape[2], matrix.shape[1], tracked)
        found = _linear(rows, matrix, self.bias, self._number, dtype, self.training, tracked)
        return kind.restored(self, found[0], x)

    def get_extra_state(self) -> dict[str, Any]:
        """The step, and the magnitudes of earlier steps."""
        return {"step": self.step, "amax": self._uses.state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.step = state["step"]
        self._uses.restore(state["amax"])


class QuantLinear(QuantLayer, nn.Linear):
    """A linear layer whose operands are rounded by the casts of a recipe, in the forward and the backward pass.

    recipe: a Recipe, or the name of a shipped one. layer: the name that rules of `[[quant.layer]]` match, such as
        "h.0.mlp.c_fc.weight", and `exclude`, such as "lm_head.weight". `skip_first` and `skip_last` need a whole model and have no
        effect here: see `quantize_linears`.
    seed: of stochastic rounding and random signs, which also depend on `step`, the number of forward passes in training.

    Input `[..., in_features]`, output `[..., out_features]`. Operands are read in their own type: float32, bfloat16 or float16. Products
    are summed in float32 and rounded once to the type of the input, under autocast to its type; gradients to that of their tensor. The
    bias and its gradient are not rounded to a format. Forward passes in training mode are steps: delayed scales follow from the
    magnitudes of earlier ones. `state_dict` has `step` and these magnitudes (`_extra_state`), so that a restored layer goes on with the
    same bits; load the state of an `nn.Linear` before it is replaced. A layer that runs twice before its backward pass, as under
    `torch.utils.checkpoint`, warns if its casts depend on the step. Raises ValueError for transforms that do not cancel in a product, and
    for a recipe with `[[quant.schedule]]`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        recipe: Recipe | str,
        layer: str = "",
        seed: int = 0,
    ) -> None:
        super().__init__(in_features, out_features, bias)
        self._quantize(_kinds.Linear, recipe, layer, seed)

    @classmethod
    def from_linear(cls, linear: nn.Linear, *, recipe: Recipe | str, layer: str = "", seed: int = 0) -> QuantLinear:
        """`QuantLayer.from_layer` of an `nn.Linear`."""
        return cls.from_layer(linear, recipe=recipe, name=layer, seed=seed)
