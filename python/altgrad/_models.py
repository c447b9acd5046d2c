"""Models whose layers are replaced by rounded ones, and which layers were."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import nn

from . import _kinds
from ._casts import Recipe
from ._linear import QuantLayer


@dataclass(frozen=True)
class Layers:
    """The layers of a model by what `quantize_linears` did. Printed, a table."""

    rounded: list[str] = field(default_factory=list)
    """Layers with a rounded operand."""
    excluded: dict[str, str] = field(default_factory=dict)
    """Layers that could be rounded and are not, with the reason."""
    unsupported: dict[str, str] = field(default_factory=dict)
    """Layers whose products cannot be rounded, with the reason."""

    def __str__(self) -> str:
        parts = (("excluded", self.excluded), ("unsupported", self.unsupported))
        lines = [f"{len(self.rounded)} rounded", *(f"  {name}" for name in self.rounded)]
        for title, found in parts:
            lines += [f"{len(found)} {title}", *(f"  {name}: {why}" for name, why in found.items())]
        return "\n".join(lines)


def layers(model: nn.Module) -> Layers:
    """Which layers of a model are rounded, excluded and unsupported, as its `quantize_linears` found them.

    Raises ValueError for a model without rounded layers.
    """
    found = getattr(model, "_altgrad_layers", None)
    if found is None:
        raise ValueError("the model has no rounded layers\nhint: call quantize_linears")
    return found


def quantize_linears(
    model: nn.Module,
    recipe: Recipe | str,
    *,
    seed: int = 0,
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
) -> nn.Module:
    """Rounds the operands of every linear layer of a model, or of those for which `filter_fn(module, name)` is true: `nn.Linear`,
    `Conv1D` of Hugging Face's transformers, and convolutions of width one, grouped or not. Each is replaced by a QuantLayer with the
    same parameters; its name, with ".weight", is that which rules match. Returns the model; `layers(model)` lists what was done.

    A layer under several names is replaced by one layer, whose name is the first of them. Layers of which the recipe rounds no operand
    stay. So do others with products, with a warning that names them: subclasses of `nn.Linear`, other convolutions, recurrent layers,
    stacked weights of experts, and `nn.MultiheadAttention`, which reads the weights of its projections itself.
    `nn.TransformerEncoderLayer` does so in evaluations; this fast path is disabled.

    `skip_first` and `skip_last` count blocks: the numbered parts of the model that contain linear layers, such as `h.0` of
    `h.0.mlp.c_fc`. Linear layers of a model with the parameters and layers of a run of altgrad-host, in the same order, draw the
    random bits of that run if `seed` is its seed and each step has one forward pass.

    Raises ValueError if no operand would be rounded, such as for a model that is itself a layer, and for layers with hooks. The model is
    then unchanged.
    """
    recipe = Recipe(recipe) if isinstance(recipe, str) else recipe
    parameters = {id(parameter): number for number, parameter in enumerate(model.parameters())}
    # The model itself has no name.
    modules = [(name, module) for name, module in model.named_modules(remove_duplicate=False) if name]
    names: dict[nn.Module, str] = {}
    for name, module in modules:
        names.setdefault(module, name)
    candidates = {module: name for module, name in names.items() if _kinds.kind_of(module) is not None}
    skipped = _skipped(recipe, list(candidates.values()))
    found, made, sites = Layers(unsupported=_unsupported(names)), {}, 0
    for module, name in candidates.items():
        if name in skipped:
            found.excluded[name] = "skip_first or skip_last"
            continue
        if not (filter_fn is None or filter_fn(module, name)):
            found.excluded[name] = "filter_fn"
            continue
        layer = QuantLayer.from_layer(module, recipe=recipe, name=f"{name}.weight", seed=seed)
        if not layer._uses.rounds:
            found.excluded[name] = "the recipe rounds none of its operands"
            continue
        layer._parameter, layer._first_site = parameters[id(module.weight)], sites
        sites += layer._uses.sites
        made[module] = layer
        found.rounded.append(name)
    if not made:
        raise ValueError(
            f"no layer of the model would be rounded:\n{found}\nhint: change the recipe's exclude or filter_fn; for a single layer, use "
            "QuantLayer.from_layer"
        )
    for name, module in modules:
        if module in made:
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, made[module])
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoderLayer):
            # A condition of the fast path.
            module.activation_relu_or_gelu = 0
    model._altgrad_layers = found
    if found.unsupported:
        stay = "; ".join(f"{name} ({why})" for name, why in found.unsupported.items())
        warnings.warn(f"{len(found.unsupported)} layers with products stay unrounded: {stay}", stacklevel=2)
    return model


def _unsupported(names: dict[nn.Module, str]) -> dict[str, str]:
    """The layers with products that have no known form, with the reason."""
    reasons = {name: _kinds.reason(module) for module, name in names.items() if _kinds.kind_of(module) is None}
    rounded = {name: "rounded already" for module, name in names.items() if isinstance(module, QuantLayer)}
    return {name: why for name, why in (reasons | rounded).items() if why is not None}


def _skipped(recipe: Recipe, names: list[str]) -> set[str]:
    """The names of layers in blocks that `skip_first` and `skip_last` leave out."""
    found = {name: re.match(r"(?:.*?\.)?\d+(?=\.)", name) for name in names}
    block = {name: match[0] for name, match in found.items() if match}
    blocks = list(dict.fromkeys(block.values()))
    first, last = recipe._core.skipped(len(blocks))
    left_out = {*blocks[:first], *blocks[max(len(blocks) - last, 0) :]}
    return {name for name in names if block.get(name) in left_out}
