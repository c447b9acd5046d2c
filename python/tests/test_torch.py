"""Estimators and quantized layers of PyTorch; a model that follows a run of altgrad-host."""

import csv
import json
import math
import re
import shutil
import tempfile
import unittest
from pathlib import Path

import altgrad
import numpy as np

from tests import host, package, values

torch = package("torch")
import altgrad.torch as quantized  # noqa: E402

HERE = Path(__file__).parent
MODEL = Path(__file__).resolve().parents[2] / "tests/end-to-end/fixtures/trajectory"
RECORDED = json.loads((HERE / "trajectory/recorded.json").read_text())
EMBEDDING, HEADS, BLOCK, LAYERS = 16, 2, 16, 2


def weights():
    """The initial weights of the recorded model, by nanoGPT's names."""
    data = (MODEL / "init.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, found = json.loads(data[8 : 8 + length]), {}
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            array = np.frombuffer(data[8 + length + start : 8 + length + end], dtype=np.float32)
            parameter = torch.from_numpy(array.reshape(about["shape"]).copy())
            found[name.removeprefix("transformer.")] = torch.nn.Parameter(parameter)
    return found


def linears(w, recipe):
    """The linear layers by name; the head has the weight of the embedding."""
    names = [name for name in w if re.search(r"\.c_\w+\.weight$", name)] + ["wte.weight"]
    layers = {}
    for name in names:
        linear = torch.nn.Linear(*reversed(w[name].shape), bias=False)
        linear.weight = w[name]
        layer = "lm_head.weight" if name == "wte.weight" else name
        layers[name] = quantized.QuantLinear.from_linear(linear, recipe=recipe, layer=layer)
    return layers


def loss_of(w, linear, x, y):
    """A GPT of nanoGPT's architecture: mean cross-entropy."""
    functional = torch.nn.functional

    def norm(t, name):
        return functional.layer_norm(t, (EMBEDDING,), w[name], None, 1e-5)

    def split(t):
        return t.view(*x.shape, HEADS, EMBEDDING // HEADS).transpose(1, 2)

    future = torch.ones(BLOCK, BLOCK, dtype=torch.bool).triu(1)
    hidden = w["wte.weight"][x] + w["wpe.weight"]
    for n in range(LAYERS):
        fused = linear[f"h.{n}.attn.c_attn.weight"](norm(hidden, f"h.{n}.ln_1.weight"))
        q, k, v = (split(part) for part in fused.split(EMBEDDING, dim=-1))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(EMBEDDING // HEADS)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        mixed = mixed.transpose(1, 2).reshape(*x.shape, EMBEDDING)
        hidden = hidden + linear[f"h.{n}.attn.c_proj.weight"](mixed)
        up = functional.gelu(linear[f"h.{n}.mlp.c_fc.weight"](norm(hidden, f"h.{n}.ln_2.weight")))
        hidden = hidden + linear[f"h.{n}.mlp.c_proj.weight"](up)
    logits = linear["wte.weight"](norm(hidden, "ln_f.weight"))
    return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def train(run_file):
    """The losses of the run in PyTorch, from the recorded weights and batches."""
    w = weights()
    layers = linears(w, altgrad.Recipe.from_run_file(run_file))
    matrices = [t for t in w.values() if t.dim() >= 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": [t for t in w.values() if t.dim() < 2]}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.0)
    text = (MODEL / "text.txt").read_bytes()
    rank = {byte: index for index, byte in enumerate(sorted(set(text)))}
    tokens, losses = torch.tensor([rank[byte] for byte in text]), []
    for starts in RECORDED["starts"]:
        x = torch.stack([tokens[start : start + BLOCK] for start in starts])
        y = torch.stack([tokens[start + 1 : start + 1 + BLOCK] for start in starts])
        loss = loss_of(w, layers, x, y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(w.values()), 0.76)
        optimizer.step()
        losses.append(loss.item())
    return losses


class Torch(unittest.TestCase):
    def test_tensors_are_read_and_returned(self):
        form, x = altgrad.Format("E4M3"), torch.from_numpy(values(1000))
        expected = form.fake_quant(x.numpy())
        for tensor in (x, x.clone().requires_grad_(), torch.stack([x, x], 1)[:, 0]):
            found = form.fake_quant(tensor)
            self.assertIsInstance(found, torch.Tensor)
            np.testing.assert_array_equal(found.numpy(), expected)
            self.assertEqual(form.quantize(tensor).dtype, torch.uint8)
        small = torch.linspace(-2, 2, 9).bfloat16()
        np.testing.assert_array_equal(form.fake_quant(small), form.fake_quant(small.float()))
        with self.assertRaises(TypeError):
            form.fake_quant(x.double())
        with self.assertRaises(TypeError):
            form.fake_quant(torch.ones(3, device="meta"))

    def test_codes_and_values_are_those_of_pytorch(self):
        for name, dtype in (("E4M3", torch.float8_e4m3fn), ("E5M2", torch.float8_e5m2), ("E8M7", torch.bfloat16)):
            form = altgrad.Format(name)
            x = torch.from_numpy(values(special=False))
            x = x[x.abs() <= form.info["largest"]]
            np.testing.assert_array_equal(form.fake_quant(x).numpy(), x.to(dtype).float().numpy())

    def test_estimators(self):
        for ste, factors in (("identity", [1, 1, 1]), ("clipped", [1, 0, 1]), ("relu", [1, 1, 0])):
            for scale, x in ((1.0, [0.3, 500.0, -2.0]), (4.0, [0.3, 113.0, -112.0])):
                x = torch.tensor(x, requires_grad=True)
                (quantized.fake_quant(x, "E4M3", ste=ste, scale=scale) * 2).sum().backward()
                self.assertEqual(x.grad.tolist(), [2.0 * factor for factor in factors])
        with self.assertRaises(ValueError):
            quantized.fake_quant(torch.ones(2), "E4M3", ste="none")

    def test_each_product_has_its_casts(self):
        """The gradients of a layer, written out with casts of matrices."""
        torch.manual_seed(0)
        layer = quantized.QuantLinear(64, 32, recipe="mxfp8")
        x, g = torch.randn(96, 64, requires_grad=True), torch.randn(96, 32)
        layer(x).backward(g)
        recipe = altgrad.Recipe("mxfp8")

        def cast(use, matrix, axis):
            return recipe.cast(use)[0].apply(matrix.detach(), axis=axis).values

        fprop = cast("activation", x, "rows") @ cast("weight", layer.weight, "rows").T
        torch.testing.assert_close(layer(x), fprop + layer.bias)
        dgrad = cast("grad", g, "rows") @ cast("weight_dgrad", layer.weight, "columns")
        torch.testing.assert_close(x.grad, dgrad)
        wgrad = cast("grad_wgrad", g, "columns").T @ cast("activation_wgrad", x, "columns")
        torch.testing.assert_close(layer.weight.grad, wgrad)
        torch.testing.assert_close(layer.bias.grad, g.sum(0))

    def test_refused_recipes(self):
        for recipe, why in (("te_delayed", "delayed"), ("quartet", "transform"), ("none", "recipe")):
            with self.assertRaisesRegex(ValueError, why):
                quantized.QuantLinear(32, 32, recipe=recipe)

    def test_losses_are_the_recorded_ones_of_the_host(self):
        losses = train(HERE / "trajectory/run.toml")
        # Sums in another order may turn a rounding; later losses then differ by up to 1e-3. In this run none turns.
        gap = max(abs(own - other) for own, other in zip(losses, RECORDED["losses"], strict=True))
        self.assertLess(gap, 1e-5, losses)

    def test_the_host_has_the_recorded_losses(self):
        with tempfile.TemporaryDirectory() as folder:
            for file in (HERE / "trajectory/run.toml", MODEL / "text.txt", MODEL / "init.safetensors"):
                shutil.copy(file, folder)
            host("run", "run.toml", "--out", "out", "--quiet", folder=folder)
            with open(Path(folder) / "out/metrics.csv") as file:
                losses = [float(row["train/loss"]) for row in csv.DictReader(file)]
        np.testing.assert_allclose(losses, RECORDED["losses"], rtol=0, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
