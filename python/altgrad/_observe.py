"""Observation of models that train in high precision: the errors that casts would make in their tensors.

The tensors are those before any rounding, docs/numerics.md, section 7.4.1; the errors are defined in section 7.4.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from . import _kinds, _read
from ._casts import Cast, Recipe
from ._folder import Folder
from ._linear import QuantLayer
from ._rounding import round_rows

# By role, whether a second use of the tensor; those of linear layers first.
_LINEAR = {
    "weight": None,
    "activation": None,
    "grad": None,
    "weight_dgrad": "weight",
    "activation_wgrad": "activation",
    "grad_wgrad": "grad",
    "weight_grad": None,
}
_ATTENTION = ("query", "key", "value")
_ROLES = (*_LINEAR, *_ATTENTION, "norm", "embedding")
_SUMS = ("elements", "overflow", "underflow", "nan", "nonzero", "sum_x2", "sum_err2")
_COLUMNS = (
    "step",
    "layer",
    "role",
    "format",
    "elements",
    "amax",
    "scale",
    "sqnr_db",
    "overflow_rate",
    "underflow_rate",
    "zero_rate",
    "unscaled_overflow_rate",
    "unscaled_underflow_rate",
)


def observe(
    model: nn.Module,
    formats: Iterable[str | Cast | Recipe] | Mapping[str, str | Cast | Recipe],
    roles: Iterable[str] = ("weight", "activation", "grad"),
    *,
    every: int = 1,
    out: str | os.PathLike[str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Observation:
    """Measures what casts would do to the tensors of a model while it trains. The training does not change: losses and gradients have
    the same bits.

        with altgrad.torch.observe(model, ["E4M3", "mxfp8"], every=10, out="runs/mine") as seen:
            ...                                 # the training loop
        seen.frame()

    formats: names of formats, each with one scale per tensor, names of recipes, Casts or Recipes; or a dictionary that gives them names.
        A recipe has its cast for each layer and role, and skips those that it does not round.
    roles: weight, activation (inputs) and grad (gradients of outputs) of linear layers, `Conv1D` of Hugging Face's transformers and
        convolutions of width one; weight_dgrad, activation_wgrad and grad_wgrad, the same tensors transposed, with blocks along the
        contraction of their backward products; weight_grad; query, key and value of `scaled_dot_product_attention`; outputs of norm and
        embedding.
    every: a step is a forward pass of `model` in training mode; steps 0, every, 2 every, ... are measured.
    out: a folder for a run that `altgrad-host report`, `watch` and `compare` and `altgrad.runs` read; it must be empty or missing.
    config: further keys of the run's file, such as {"run.seed": 1, "train.lr": 1e-3}: `compare` groups runs by them.

    Tensors on other devices are copied to the CPU. Hooks see modules that run eagerly, not inside of `torch.compile`. Raises ValueError
    for unknown formats and roles, and for a compiled model.
    """
    return Observation(model, formats, roles, every, out, config or {})


def _labelled(formats: Any) -> dict[str, Cast | Recipe]:
    """Casts and recipes by name."""
    if not isinstance(formats, Mapping):
        listed = [formats] if isinstance(formats, (str, Cast, Recipe)) else list(formats)
        names = [what if isinstance(what, str) else what.format.name if isinstance(what, Cast) else "" for what in listed]
        if len(set(names)) < len(names):
            raise ValueError("two formats have one name\nhint: formats = {'mine': ...} gives names")
        formats = dict(zip(names, listed))
    for name in formats:
        if not re.fullmatch(r"[\w:+-]{1,48}", name):
            raise ValueError(f"{name!r} cannot name a format\nhint: formats = {{'mine': ...}} gives names")
    if not formats:
        raise ValueError("there is no format to observe")
    return {name: _made(what) for name, what in formats.items()}


def _made(what: str | Cast | Recipe) -> Cast | Recipe:
    if not isinstance(what, str):
        return what
    return Recipe(what) if what in Recipe.names() else Cast(what)


class Observation:
    """Measurements of a model, from `observe`: a context that measures while it is entered."""

    def __init__(self, model: nn.Module, formats: Any, roles: Any, every: int, out: Any, config: Mapping[str, Any]) -> None:
        self._casts, self._roles = _labelled(formats), tuple([roles] if isinstance(roles, str) else roles)
        unknown = [role for role in self._roles if role not in _ROLES]
        if unknown or not self._roles:
            raise ValueError(f"roles must be among {', '.join(_ROLES)}, found {unknown}")
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"every must be 1 or more, found {every!r}")
        if isinstance(model, torch._dynamo.eval_frame.OptimizedModule) or getattr(model, "_compiled_call_impl", None):
            raise ValueError("hooks do not see into a compiled model\nhint: observe the model before torch.compile")
        self._model, self._every = model, every
        self._unscaled: dict[str, Cast] = {}
        self._sums: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._weighed: set[str] = set()
        self._losses: dict[str, float] = {}
        self.rows: list[dict[str, Any]] = []
        """A dictionary per step, layer, role and format, with the columns of `frame`."""
        self._handles: list[Any] = []
        self._mode: TorchFunctionMode | None = None
        self.step = -1
        """The current step, -1 before the first."""
        named = [name for role in self._roles for name in self._columns_of(role)]
        own = {"observe.every": every, "observe.formats": list(self._casts), "observe.roles": list(self._roles)}
        self._folder = None if out is None else Folder(out, {**own, **config}, ["train/loss", "val/loss", *named])

    def _columns_of(self, role: str) -> list[str]:
        kinds = ("sqnr_db", "overflow_rate", "underflow_rate")
        return [f"observe/{role}/amax", *(f"observe/{role}/{kind}/{name}" for name in self._casts for kind in kinds)]

    def __enter__(self) -> Observation:
        hook = self._handles.append
        hook(self._model.register_forward_pre_hook(self._begin))
        for name, module in self._model.named_modules():
            kind = module._kind if isinstance(module, QuantLayer) else _kinds.kind_of(module)
            if kind is not None:
                self._hook_linear(f"{name}.weight" if name else "weight", module, kind)
            for role, word in (("norm", "Norm"), ("embedding", "Embedding")):
                is_one = word in type(module).__name__ and getattr(module, "weight", None) is not None
                if role in self._roles and is_one:
                    hook(module.register_forward_hook(self._outputs(f"{name}.weight", role)))
            if set(self._roles) & set(_ATTENTION) and "Attention" in type(module).__name__:
                hook(module.register_forward_pre_hook(self._enters(name)))
        if set(self._roles) & set(_ATTENTION):
            self._attention = ""
            self._mode = _AttentionMode(self)
            self._mode.__enter__()
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if self._mode is not None:
            self._mode.__exit__(kind, *rest)
        for handle in self._handles:
            handle.remove()
        self._handles, self._mode = [], None
        self._flush()
        if self._folder is not None:
            self._folder.close("completed" if kind is None else "interrupted", self.step + 1)

    def log(self, *, loss: Any = None, held_out: Any = None) -> None:
        """Records losses of the current step, in nats per token, for the run folder."""
        named = {"train/loss": loss, "val/loss": held_out}
        self._losses |= {name: float(value) for name, value in named.items() if value is not None}

    def frame(self, frames: str = "pandas") -> Any:
        """A row per step, layer, role and format. `frames` is "pandas" or "polars".

        elements; amax: largest finite magnitude; scale: the factor before rounding, of casts with one scale; sqnr_db: signal to noise, dB;
        overflow_rate: share of elements beyond the format's range; underflow_rate: share of nonzero elements that become zero; zero_rate:
        share of all elements that are zero after rounding; unscaled_overflow_rate and unscaled_underflow_rate: the same at scale 1. A
        value that is not defined is missing.
        """
        return _read.frame_of(self.rows, _COLUMNS, frames)

    @property
    def _is_measuring(self) -> bool:
        return self.step >= 0 and self.step % self._every == 0 and self._model.training

    def _begin(self, model: nn.Module, _: Any) -> None:
        if model.training and not _in_backward():
            self._flush()
            self.step += 1

    def _hook_linear(self, layer: str, module: nn.Module, kind: type[_kinds.Linear]) -> None:
        wanted = [role for role in self._roles if role in _LINEAR]

        def see(role: str, tensor: Tensor) -> None:
            if role in wanted:
                self._see(layer, role, tensor.flatten(0, 1))
            for second in wanted:
                if _LINEAR[second] == role:
                    self._see(layer, second, tensor.mT.flatten(0, 1))

        def before(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            if self._is_measuring and not _in_backward():
                see("activation", kind.rows(module, kind.sees(module, inputs[0].detach())))
                if layer not in self._weighed:
                    self._weighed.add(layer)
                    see("weight", kind.matrix(module, module.weight.detach()))

        def after(module: nn.Module, _: Any, output: Tensor) -> None:
            if self._is_measuring and output.requires_grad:
                output.register_hook(lambda gradient: see("grad", _rows_of(kind, module, gradient.detach())))

        if wanted:
            self._handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
        if "weight_grad" in wanted and module.weight.requires_grad:

            def of_weight(gradient: Tensor) -> None:
                if self._is_measuring:
                    see("weight_grad", kind.matrix(module, gradient.detach()))

            self._handles.append(module.weight.register_hook(of_weight))

    def _outputs(self, layer: str, role: str) -> Any:
        def after(_: nn.Module, __: Any, output: Any) -> None:
            if self._is_measuring and isinstance(output, Tensor) and not _in_backward():
                self._see(layer, role, output.detach().flatten(0, -2))

        return after

    def _enters(self, name: str) -> Any:
        def before(*_: Any) -> None:
            self._attention = name

        return before

    def _see(self, layer: str, role: str, x: Tensor) -> None:
        """Adds a matrix to the sums of this step."""
        if x.numel() == 0:
            return
        x = x.to("cpu", torch.float32).contiguous()
        for name, cast in self._casts.items():
            if isinstance(cast, Recipe):
                if role not in _LINEAR:
                    continue
                cast, source, _ = cast.cast(role, layer)
                if cast is None or source == "reuse":
                    continue
            _, seen = round_rows(cast, x)
            at_one = self._unscaled.setdefault(cast.format.name, Cast(f'format = "{cast.format.name}", block = "none"'))
            _, unscaled = round_rows(at_one, x)
            sums = self._sums.setdefault((layer, role, name), dict.fromkeys(_SUMS, 0) | {"amax": -1.0, "unscaled": [0, 0]})
            if seen["amax"] > sums["amax"]:
                sums |= {"amax": seen["amax"], "scale": seen["scale"]}
            for part in _SUMS:
                sums[part] += seen[part]
            sums["unscaled"] = [sum(pair) for pair in zip(sums["unscaled"], (unscaled["overflow"], unscaled["underflow"]))]

    def _flush(self) -> None:
        """Turns the sums of a step into rows."""
        pooled: dict[tuple[str, str], dict[str, Any]] = {}
        for (layer, role, name), sums in self._sums.items():
            row = {"step": self.step, "layer": layer, "role": role, "format": name, "scale": sums["scale"], **_rates(sums)}
            self.rows.append(row)
            whole = pooled.setdefault((role, name), dict.fromkeys(_SUMS, 0) | {"amax": 0.0, "unscaled": [0, 0]})
            for part in _SUMS:
                whole[part] += sums[part]
            whole["amax"] = max(whole["amax"], sums["amax"])
            whole["unscaled"] = [sum(pair) for pair in zip(whole["unscaled"], sums["unscaled"])]
            if self._folder is not None:
                self._folder.layer(self.step, layer, _metrics(role, name, row))
        if self._folder is not None and (pooled or self._losses):
            row = dict(self._losses)
            for (role, name), whole in pooled.items():
                row |= _metrics(role, name, _rates(whole))
            self._folder.row(self.step, row)
        self._sums, self._losses, self._weighed = {}, {}, set()


def _rates(sums: dict[str, Any]) -> dict[str, Any]:
    """The statistics of sums; None where they are not defined."""
    elements, numbers = sums["elements"], sums["nonzero"] - sums["nan"]
    over, under = sums["unscaled"]
    signal, noise = sums["sum_x2"], sums["sum_err2"]
    return {
        "elements": elements,
        "amax": sums["amax"] or None,
        "sqnr_db": 10 * math.log10(signal / noise) if signal > 0 and noise > 0 else None,
        "overflow_rate": sums["overflow"] / elements,
        "underflow_rate": sums["underflow"] / numbers if numbers else None,
        "zero_rate": (elements - sums["nonzero"] + sums["underflow"]) / elements,
        "unscaled_overflow_rate": over / elements,
        "unscaled_underflow_rate": under / numbers if numbers else None,
    }


def _metrics(role: str, name: str, rates: dict[str, Any]) -> dict[str, Any]:
    """The metrics of a run that have the definitions of these statistics: overflow and underflow are those at scale 1."""
    return {
        f"observe/{role}/amax": rates["amax"],
        f"observe/{role}/sqnr_db/{name}": rates["sqnr_db"],
        f"observe/{role}/overflow_rate/{name}": rates["unscaled_overflow_rate"],
        f"observe/{role}/underflow_rate/{name}": rates["unscaled_underflow_rate"],
    }


def _rows_of(kind: type[_kinds.Linear], module: nn.Module, gradient: Tensor) -> Tensor:
    """The gradient of an output as `[groups, tokens, out]`."""
    if kind is _kinds.WidthOne and gradient.dim() == len(module.stride) + 1:
        gradient = gradient.unsqueeze(0)
    return kind.rows(module, gradient)


def _in_backward() -> bool:
    """True in a backward pass, where layers run again to recompute activations."""
    return torch._C._current_graph_task_id() != -1


class _AttentionMode(TorchFunctionMode):
    """Shows queries, keys and values of attention to an observation."""

    def __init__(self, observation: Observation) -> None:
        super().__init__()
        self._observation = observation

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        own = self._observation
        if func is nn.functional.scaled_dot_product_attention and own._is_measuring and not _in_backward():
            given = dict(zip(_ATTENTION, args)) | (kwargs or {})
            for role in own._roles:
                if role in _ATTENTION:
                    tensor = given[role].detach()
                    # The product with values contracts over positions.
                    own._see(own._attention, role, (tensor.mT if role == "value" else tensor).flatten(0, -2))
        return func(*args, **(kwargs or {}))
