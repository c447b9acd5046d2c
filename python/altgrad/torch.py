"""Straight-through estimators and a quantized linear layer for PyTorch, on the CPU.

The definitions are those of altgrad's training: docs/numerics.md, sections 5.2 and 5.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from . import _arrays
from ._casts import Cast, Recipe
from ._formats import Format
from ._uses import Bits, Uses

_ESTIMATORS = ("identity", "clipped", "relu")
# What calls of a layer do besides its forward pass.
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def _check_type(x: Any) -> None:
    """Refuses all but tensors of float32 on the CPU."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"expected a tensor of float32 on the CPU, got {type(x).__name__}")
    if x.dtype != torch.float32 or x.device.type != "cpu":
        raise TypeError(f"expected a tensor of float32 on the CPU, got {x.dtype} on {x.device}")


def _array(tensor: torch.Tensor) -> np.ndarray:
    """The values of a tensor, without a copy where possible."""
    return tensor.detach().resolve_neg().numpy()


class _StraightThrough(torch.autograd.Function):
    """Values in the forward pass; the gradient, 0 where it is blocked, in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, values: torch.Tensor, blocked: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(*([] if blocked is None else [blocked]))
        return values

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        # A product with 0 would turn an infinite gradient into NaN.
        return (gradient.masked_fill(*ctx.saved_tensors, 0.0) if ctx.saved_tensors else gradient), None, None


def fake_quant(x: torch.Tensor, to: Format | Cast | str, *, ste: str = "identity", **options: Any) -> Any:
    """Rounds `x` to values of a format or by a cast; gradients pass by a straight-through estimator.

    x: a CPU tensor of float32, of any shape for a format, of two dimensions for a cast.
    to: a Format or its name, whose `fake_quant` takes the options; or a Cast, whose `apply` takes them.
    ste: the estimator: "identity" passes every gradient, "clipped" blocks it where the scaled magnitude exceeds the format's largest
        value (for casts with blocks along rows), "relu" where x <= 0. Gradients of NaN pass.

    With the option `stats=True` of a format, returns the tensor and the statistics.

    Raises ValueError for another estimator, and what `Format.fake_quant` and `Cast.apply` raise.
    """
    if ste not in _ESTIMATORS:
        raise ValueError(f"ste must be one of {', '.join(_ESTIMATORS)}, found {ste!r}")
    _check_type(x)
    if isinstance(to, str):
        to = Format(to)
    plain = x.detach()
    rounded = to.apply(plain, **options).values if isinstance(to, Cast) else to.fake_quant(plain, **options)
    values, *stats = rounded if isinstance(rounded, tuple) else (rounded,)
    blocked = None
    if ste == "relu":
        blocked = plain <= 0
    elif ste == "clipped" and x.numel():
        blocked = torch.from_numpy((_clipped_by_cast if isinstance(to, Cast) else _clipped_by_format)(plain, to, options))
    result = _StraightThrough.apply(x, values, blocked)
    return (result, *stats) if stats else result


def _clipped_by_format(x: torch.Tensor, form: Format, options: dict[str, Any]) -> np.ndarray:
    axis, block, scale = options.get("axis", -1), options.get("block"), options.get("scale", 1.0)
    if isinstance(scale, str):
        scale = form.scales(x, axis=axis, block=block)
    blocks = _arrays.Blocks(tuple(x.shape), block, axis)
    scaled = _array(x) * blocks.spread(blocks.scales(scale).reshape(blocks.shape))
    return _arrays.beyond(scaled, form.info["largest"])


def _clipped_by_cast(x: torch.Tensor, cast: Cast, options: dict[str, Any]) -> np.ndarray:
    if options.get("axis", "rows") != "rows":
        raise ValueError("the clipped estimator needs blocks along rows")
    key = _arrays.key(options.get("key", 0))
    _, scaled = cast._round(_arrays.floats(x)[0], key, key, options.get("amax"))
    return cast._is_clipped(scaled)


class _Product(torch.autograd.Function):
    """`x W^T` and its two gradients, each operand rounded by its cast, in float32 also under autocast. The gradients have no
    derivatives."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, uses: Uses, bits: Bits, records: bool
    ) -> torch.Tensor:
        kept, blocked = [], []
        for name, second, tensor in (("activation", "activation_wgrad", x), ("weight", "weight_dgrad", weight)):
            values, where = uses[name].round(_array(tensor), bits, records)
            blocked.append(where)
            # Of the two forms of an operand, a second use needs one.
            kept += [torch.from_numpy(values), tensor if uses[second].source == "hp" else None]
        ctx.save_for_backward(*kept)
        ctx.about = uses, bits, records, blocked
        return kept[0] @ kept[2].T

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        uses, bits, records, (x_blocked, w_blocked) = ctx.about
        kept = [None if tensor is None else _array(tensor) for tensor in ctx.saved_tensors]
        x_values, x, w_values, w = kept
        gradient = np.ascontiguousarray(_array(gradient))
        values, _ = uses["grad"].round(gradient, bits, records)
        dx = dw = None
        if ctx.needs_input_grad[0]:
            second = uses.second("weight_dgrad", w, w_values, bits, records)
            dx = _product(values, second.T)
            dx = torch.from_numpy(uses["activation"].gradient(dx, x_blocked, bits))
        if ctx.needs_input_grad[1]:
            second = uses.second("activation_wgrad", x, x_values, bits, records)
            dw = _product(uses.second("grad_wgrad", gradient, values, bits, records), second.T)
            dw = uses["weight"].gradient(dw, w_blocked, bits)
            dw = torch.from_numpy(uses["weight_grad"].round(dw, bits, records)[0])
        return dx, dw, None, None, None


def _product(a: Any, b: Any) -> Any:
    return (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()


class QuantLinear(nn.Linear):
    """A linear layer whose operands are rounded by the casts of a recipe, in the forward and the backward pass.

    recipe: a Recipe, or the name of a shipped one. layer: the name that rules of `[[quant.layer]]` match, such as
        "h.0.mlp.c_fc.weight", and `exclude`, such as "lm_head.weight". `skip_first` and `skip_last` need a whole model and have no
        effect here: see `quantize_linears`.
    seed: of stochastic rounding and random signs, which also depend on `step`, the number of forward passes in training.

    Input `[..., in_features]`, output `[..., out_features]`, float32 on the CPU. Weights stay in float32; the bias and
    its gradient are not rounded. Forward passes in training mode are steps: delayed scales follow from the magnitudes of earlier
    ones. `state_dict` has `step` and these magnitudes (`_extra_state`), so that a restored layer goes on with the same bits; load the
    state of an `nn.Linear` before it is replaced. `torch.utils.checkpoint` repeats forward passes, and each repetition counts as a step:
    random bits and delayed scales of the backward pass then differ from those of the forward pass, and magnitudes are recorded
    twice. Raises ValueError for transforms that do not cancel in a product, and for a recipe with `[[quant.schedule]]`.
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
        self._quantize(recipe, layer, seed)

    def _quantize(self, recipe: Recipe | str, layer: str, seed: int) -> None:
        recipe = Recipe(recipe) if isinstance(recipe, str) else recipe
        self._uses = Uses(recipe, layer)
        self.seed, self.step = seed, 0
        # Numbers of the layer's weight among the parameters of a model, and of its first rounded operand among those of all layers.
        self._parameter, self._first_site = 0, 0

    @classmethod
    def from_linear(cls, linear: nn.Linear, *, recipe: Recipe | str, layer: str = "", seed: int = 0) -> QuantLinear:
        """A layer with the parameters of `linear`, which both share, in the same mode. Raises ValueError for a layer with hooks,
        which the new layer would not call."""
        if any(getattr(linear, hooks) for hooks in _HOOKS):
            raise ValueError(
                f"the layer {layer!r} has hooks, which the quantized layer does not call\n"
                "hint: remove the hooks, and register them at the quantized layer"
            )
        own = cls.__new__(cls)
        nn.Module.__init__(own)
        own.training = linear.training
        own.in_features, own.out_features = linear.in_features, linear.out_features
        own.weight, own.bias = linear.weight, linear.bias
        own._quantize(recipe, layer, seed)
        return own

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _check_type(x)
        if x.shape[-1:] != (self.in_features,):
            raise ValueError(f"expected rows of {self.in_features} elements, got the shape {tuple(x.shape)}")
        rows = x.reshape(-1, self.in_features)
        backward = torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad)
        self._uses.check_sizes(len(rows), self.in_features, self.out_features, backward)
        bits = Bits(self.seed, self.step, self._parameter, self._first_site)
        product = _Product.apply(rows, self.weight, self._uses, bits, self.training)
        if self.training:
            self.step += 1
        product = product if self.bias is None else product + self.bias
        return product.reshape(*x.shape[:-1], self.out_features)

    def get_extra_state(self) -> dict[str, Any]:
        """The step, and the magnitudes of earlier steps."""
        return {"step": self.step, "amax": self._uses.state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.step = state["step"]
        self._uses.restore(state["amax"])


def quantize_linears(
    model: nn.Module,
    recipe: Recipe | str,
    *,
    seed: int = 0,
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
) -> nn.Module:
    """Replaces every `nn.Linear` of a model, or those for which `filter_fn(module, name)` is true, by a QuantLinear with the same
    parameters; its name, with ".weight", is that which rules match. Returns the model.

    A layer under several names is replaced by one layer, whose name is the first of them. Subclasses of `nn.Linear` stay, and so do the
    projections in `nn.MultiheadAttention`, which reads their weights itself. `nn.TransformerEncoderLayer` does so in evaluations;
    this fast path is disabled.

    `skip_first` and `skip_last` count blocks: the numbered parts of the model that contain linear layers, such as `h.0` of
    `h.0.mlp.c_fc`. Linear layers of a model with the parameters and layers of a run of altgrad-host, in the same order, draw the
    random bits of that run if `seed` is its seed and each step has one forward pass.

    Raises ValueError if nothing is replaced, such as for a model that is itself an `nn.Linear`, and for layers with hooks. The
    model is then unchanged.
    """
    recipe = Recipe(recipe) if isinstance(recipe, str) else recipe
    parameters = {id(parameter): number for number, parameter in enumerate(model.parameters())}
    # The model itself has no name.
    modules = [(name, module) for name, module in model.named_modules(remove_duplicate=False) if name]
    linears = [(name, module) for name, module in modules if type(module) is nn.Linear]
    skipped = _skipped(recipe, [name for name, _ in linears])
    names: dict[nn.Module, str] = {}
    for name, linear in linears:
        names.setdefault(linear, name)
    layers: dict[nn.Module, QuantLinear] = {}
    sites = 0
    for linear, name in names.items():
        if name in skipped or not (filter_fn is None or filter_fn(linear, name)):
            continue
        layer = QuantLinear.from_linear(linear, recipe=recipe, layer=f"{name}.weight", seed=seed)
        layer._parameter, layer._first_site = parameters[id(linear.weight)], sites
        sites += layer._uses.sites
        layers[linear] = layer
    if not layers:
        raise ValueError(
            "no `nn.Linear` in the model is to be replaced\nhint: for a single layer, use QuantLinear.from_linear"
        )
    for name, linear in linears:
        if linear in layers:
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, layers[linear])
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            # A condition of the fast path.
            module.activation_relu_or_gelu = 0
    return model


def _skipped(recipe: Recipe, names: list[str]) -> set[str]:
    """The names of layers in blocks that `skip_first` and `skip_last` leave out."""
    found = {name: re.match(r"(?:.*?\.)?\d+(?=\.)", name) for name in names}
    block = {name: match[0] for name, match in found.items() if match}
    blocks = list(dict.fromkeys(block.values()))
    first, last = recipe._core.skipped(len(blocks))
    left_out = {*blocks[:first], *blocks[max(len(blocks) - last, 0) :]}
    return {name for name in names if block.get(name) in left_out}
