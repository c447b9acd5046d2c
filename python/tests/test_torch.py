"""Estimators and quantized layers of PyTorch; a model that follows runs of altgrad-host."""

import copy
import math
import pickle
import unittest
import warnings

import altgrad
import numpy as np

from tests import package, trajectory, values
from tests.trajectory import BETAS, BLOCK, CLIP, DECAY, EMBEDDING, HEADS, LAYERS, LEARNING_RATE

torch = package("torch")
import altgrad.torch as quantized  # noqa: E402


def linear(inputs, outputs):
    return torch.nn.Linear(inputs, outputs, bias=False)


class Block(torch.nn.Module):
    """A block of nanoGPT: parts, and their order, as there."""

    def __init__(self):
        super().__init__()
        self.ln_1 = torch.nn.LayerNorm(EMBEDDING, bias=False)
        self.attn = torch.nn.ModuleDict({"c_attn": linear(EMBEDDING, 3 * EMBEDDING), "c_proj": linear(EMBEDDING, EMBEDDING)})
        self.ln_2 = torch.nn.LayerNorm(EMBEDDING, bias=False)
        self.mlp = torch.nn.ModuleDict({"c_fc": linear(EMBEDDING, 4 * EMBEDDING), "c_proj": linear(4 * EMBEDDING, EMBEDDING)})

    def forward(self, hidden):
        def split(t):
            return t.view(*hidden.shape[:2], HEADS, EMBEDDING // HEADS).transpose(1, 2)

        fused = self.attn["c_attn"](self.ln_1(hidden))
        q, k, v = (split(part) for part in fused.split(EMBEDDING, dim=-1))
        future = torch.ones(BLOCK, BLOCK, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(EMBEDDING // HEADS)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        hidden = hidden + self.attn["c_proj"](mixed.transpose(1, 2).reshape(hidden.shape))
        return hidden + self.mlp["c_proj"](torch.nn.functional.gelu(self.mlp["c_fc"](self.ln_2(hidden))))


class Gpt(torch.nn.Module):
    """nanoGPT with the recorded weights."""

    def __init__(self):
        super().__init__()
        found = {name: torch.from_numpy(value) for name, value in trajectory.weights().items()}
        tokens = found["wte.weight"].shape[0]
        self.wte = torch.nn.Embedding(tokens, EMBEDDING)
        self.wpe = torch.nn.Embedding(BLOCK, EMBEDDING)
        self.h = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = torch.nn.LayerNorm(EMBEDDING, bias=False)
        self.lm_head = linear(EMBEDDING, tokens)
        self.lm_head.weight = self.wte.weight
        self.load_state_dict(found | {"lm_head.weight": found["wte.weight"]})

    def forward(self, x, y):
        hidden = self.wte(x) + self.wpe.weight
        for block in self.h:
            hidden = block(hidden)
        logits = self.lm_head(self.ln_f(hidden))
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def train(case, interrupted=False):
    """The losses of a recorded training; `interrupted`: states are saved and restored on the way."""

    def made():
        model = quantized.quantize_linears(Gpt(), trajectory.recipe(case), seed=trajectory.CASES[case]["seed"])
        parameters = list(model.parameters())
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": DECAY},
            {"params": [p for p in parameters if p.dim() < 2]},
        ]
        return model, torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=1e-8, weight_decay=0.0)

    model, optimizer = made()
    losses = []
    for step, (x, y) in enumerate(trajectory.batches(case)):
        if interrupted and step == 10:
            states = model.state_dict(), optimizer.state_dict()
            model, optimizer = made()
            model.load_state_dict(states[0])
            optimizer.load_state_dict(states[1])
        loss = model(torch.from_numpy(x), torch.from_numpy(y))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
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
        conjugate = torch.complex(x, x).conj().imag
        self.assertTrue(conjugate.is_neg())
        np.testing.assert_array_equal(form.fake_quant(conjugate), form.fake_quant(-x))
        scale = torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True)
        np.testing.assert_array_equal(form.fake_quant(x, scale=scale), form.fake_quant(x, scale=0.5))

    def test_bytes_of_float8_are_codes(self):
        every = torch.arange(256, dtype=torch.uint8)
        for name, dtype in (("E4M3", torch.float8_e4m3fn), ("E5M2", torch.float8_e5m2)):
            form, codes = altgrad.Format(name), every.view(dtype)
            np.testing.assert_array_equal(form.dequantize(codes).numpy(), form.table)
            np.testing.assert_array_equal(form.dequantize(codes.view(16, 16).T).numpy(), form.table.reshape(16, 16).T)
            for other in ("E3M4", "E5M2" if name == "E4M3" else "E4M3"):
                with self.assertRaises(TypeError):
                    altgrad.Format(other).dequantize(codes)

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
        for wrong in ([1.0], np.ones(2, np.float32), torch.ones(2).double()):
            with self.assertRaisesRegex(TypeError, "tensor of float32"):
                quantized.fake_quant(wrong, "E4M3")

    def test_estimators_select_gradients(self):
        """Blocked gradients are 0 also where they are infinite or NaN; those of NaN pass (docs/numerics.md, section 5.3)."""
        inf, nan = math.inf, math.nan
        gradient = torch.tensor([1.0, inf, 2.0, inf, nan])
        for to, ste, w, expected in (
            ("E4M3", "identity", [0.3, 1000.0, nan, -1.0, 2.0], [1.0, inf, 2.0, inf, nan]),
            ("E4M3", "clipped", [0.3, 1000.0, nan, -1.0, -1e9], [1.0, 0.0, 2.0, inf, 0.0]),
            ("E4M3", "relu", [0.3, 1000.0, nan, -1.0, -2.0], [1.0, inf, 2.0, 0.0, 0.0]),
            # The largest magnitude decides, also where the format has no negative values.
            ("DYNAMIC8:unsigned", "clipped", [0.3, 2.0, nan, -1.0, -2.0], [1.0, 0.0, 2.0, inf, 0.0]),
        ):
            for form in (to, altgrad.Cast(f'format = "{to}", block = "none"')):
                with self.subTest(ste, to=form):
                    matrix = torch.tensor([w], requires_grad=True)
                    quantized.fake_quant(matrix, form, ste=ste).backward(gradient.reshape(1, -1))
                    np.testing.assert_array_equal(matrix.grad.numpy(), np.float32([expected]))

    def test_estimators_of_a_layer_select_gradients(self):
        for ste, kept in (("clipped", [False, True]), ("relu", [True, False])):
            recipe = altgrad.Recipe.from_toml(f'[quant]\nweight = "E4M3"\nblock = "none"\nste = "{ste}"\n')
            layer = quantized.QuantLinear(2, 1, bias=False, recipe=recipe)
            layer.weight.data = torch.tensor([[1000.0, -1.0]])
            layer(torch.ones(1, 2)).backward(torch.tensor([[math.inf]]))
            self.assertEqual(layer.weight.grad.tolist(), [[math.inf if keeps else 0.0 for keeps in kept]])

    def test_a_gradient_that_ends_is_reported(self):
        w = torch.ones(1, 2, requires_grad=True)
        for rounds in (altgrad.Format("E4M3").fake_quant, altgrad.Cast("E4M3").apply):
            with self.assertWarnsRegex(UserWarning, "altgrad.torch.fake_quant"):
                rounds(w)
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("error")
                rounds(w)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quantized.fake_quant(w, "E4M3", ste="clipped").sum().backward()
        self.assertEqual(w.grad.tolist(), [[1.0, 1.0]])

    def test_float8_is_refused_with_its_remedy(self):
        every = torch.zeros(2, dtype=torch.uint8)
        for dtype, remedy in ((torch.float8_e4m3fn, r'Format\("E4M3"\).dequantize'), (torch.float8_e5m2fnuz, "uint8")):
            with self.assertRaisesRegex(TypeError, remedy):
                altgrad.Format("E4M3").fake_quant(every.view(dtype))

    def test_matrices_without_elements(self):
        x = torch.zeros(0, 32)
        for to in ("E4M3", altgrad.Cast('format = "E4M3", block = 32'), altgrad.Cast("E4M3")):
            for ste in ("identity", "clipped", "relu"):
                self.assertEqual(quantized.fake_quant(x, to, ste=ste).shape, (0, 32))
        layer = quantized.QuantLinear(32, 16, recipe="nvfp4")
        layer(x.requires_grad_()).sum().backward()
        self.assertEqual((x.grad.shape, layer.weight.grad.abs().sum().item()), ((0, 32), 0.0))

    def test_rows_that_a_transform_does_not_divide(self):
        """Refused in the forward pass of a training step, by the names of layer and operand."""
        layer = quantized.QuantLinear(32, 32, recipe="nvfp4", layer="h.0.mlp.c_fc.weight")
        with self.assertRaisesRegex(ValueError, r"activation_wgrad in the layer 'h.0.mlp.c_fc.weight'.* 7 rows of the input\nhint"):
            layer(torch.ones(7, 32))
        with torch.no_grad():
            layer(torch.ones(7, 32))
        layer(torch.ones(2, 8, 32)).sum().backward()
        with self.assertRaisesRegex(ValueError, "16 in_features"):
            quantized.QuantLinear(16, 32, recipe="quartet")(torch.ones(32, 16))

    def test_statistics_beside_an_estimator(self):
        x = torch.tensor([0.3, 500.0], requires_grad=True)
        found, stats = quantized.fake_quant(x, "E4M3", ste="clipped", stats=True)
        found.sum().backward()
        self.assertEqual((x.grad.tolist(), stats["overflow"]), ([1.0, 0.0], 1))

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

    def test_copies_go_on_alike_and_apart(self):
        torch.manual_seed(0)
        x, layer = torch.randn(8, 16), quantized.QuantLinear(16, 16, recipe="te_delayed")
        layer(x)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            state = other.get_extra_state()
            layer.eval()
            np.testing.assert_array_equal(other(x * 3).detach().numpy(), layer(x * 3).detach().numpy())
            self.assertNotEqual(other.get_extra_state(), state)
            self.assertEqual(layer.get_extra_state(), state)

    def test_second_derivatives_are_refused(self):
        x = torch.ones(2, 16, requires_grad=True)
        loss = quantized.QuantLinear(16, 16, recipe="te_current")(x).square().sum()
        (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "no autograd formula|does not require grad"):
            gradient.sum().backward()

    def test_rotated_operands(self):
        """The products and gradients of a layer with transforms in all of them, written out with Sylvester's matrix."""
        torch.manual_seed(0)
        transform = "transform = { hadamard = 16 }"
        recipe = altgrad.Recipe.from_toml(
            f'[quant]\nweight = "E8M7"\nactivation = "E8M7"\nste = "relu"\n[quant.cast.weight]\n{transform}\n'
            f"[quant.cast.activation]\n{transform}\n"
        )
        layer = quantized.QuantLinear(32, 8, bias=False, recipe=recipe)
        x, g = torch.randn(48, 32, requires_grad=True), torch.randn(48, 8)
        y = layer(x)
        y.backward(g)
        h = np.array([[(-1) ** (i & j).bit_count() / 4 for j in range(16)] for i in range(16)])
        h = torch.from_numpy(np.kron(np.eye(2), h)).float()
        xh, wh = x.detach() @ h, layer.weight.detach() @ h
        # E8M7 has 8 significant bits: within 2^-8 of the unrounded product.
        torch.testing.assert_close(y, x @ layer.weight.T, rtol=0.02, atol=0.05)
        a, b = (recipe.cast(use)[0].apply(t.numpy()).values for use, t in (("activation", x.detach()), ("weight", layer.weight.detach())))
        np.testing.assert_array_equal(y.detach().numpy(), (torch.from_numpy(a) @ torch.from_numpy(b).T).numpy())
        dx = ((g @ torch.from_numpy(b)) * (xh > 0)) @ h.T
        dw = ((g.T @ torch.from_numpy(a)) * (wh > 0)) @ h.T
        torch.testing.assert_close(x.grad, dx)
        torch.testing.assert_close(layer.weight.grad, dw)

    def test_delayed_scales(self):
        """The scale of a step follows from the magnitudes of the steps before; evaluations count for nothing."""
        recipe = altgrad.Recipe.from_toml(
            '[quant]\nactivation = "E4M3"\nscaling = { amax = "delayed", window = 2, first = "one" }\n'
        )
        layer = quantized.QuantLinear(1, 1, bias=False, recipe=recipe)
        torch.nn.init.ones_(layer.weight)
        cast, seen = recipe.cast("activation")[0], []
        for step, (value, window) in enumerate([(3.3, None), (0.77, 3.3), (0.077, 3.3), (5.1, 0.77), (1.7, 5.1)]):
            with self.subTest(step):
                x = torch.tensor([[value]])
                layer.eval()
                layer(x * 100)
                layer.train()
                seen.append(value)
                found = layer(x).item()
                if window is None:
                    expected = altgrad.Format("E4M3").fake_quant(x).item()
                else:
                    expected = cast.apply(x, amax=window).values.item()
                    own = altgrad.Format("E4M3").fake_quant(x, scale=np.float32(448) / np.float32(window)).item()
                    self.assertEqual(expected, own)
                self.assertEqual(found, expected)

    def test_delayed_scales_over_zeros(self):
        """A last layer of zeros: the gradients before it are zeros in the first step. Their next scale is 1."""
        delayed = 'activation = "E4M3"\nweight = "E4M3"\ngrad = "E5M2"\n'
        scalings = ['amax = "delayed"', 'amax = "delayed", zero = "keep"', 'amax = "static"']
        recipes = [altgrad.Recipe.from_toml(f"[quant]\n{delayed}scaling = {{ {scaling} }}\n") for scaling in scalings]
        x = torch.ones(4, 16)
        for recipe in [altgrad.Recipe("te_delayed"), *recipes]:
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))
            torch.nn.init.zeros_(model[1].weight)
            quantized.quantize_linears(model, recipe)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            losses = []
            for _ in range(3):
                loss = (model(x) - 1).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            self.assertTrue(losses[0] > losses[1] > losses[2], losses)

    def test_block_scales_stay_where_that_of_the_tensor_is_one(self):
        """The first step of delayed scaling of two levels: block scales alone."""
        scaling = 'type = "e4m3", tensor = "f32", amax = "delayed", first = "one"'
        recipe = altgrad.Recipe.from_toml(f'[quant]\nweight = "E2M1"\nblock = 16\nscaling = {{ {scaling} }}\n')
        torch.manual_seed(0)
        layer = quantized.QuantLinear(32, 8, bias=False, recipe=recipe)
        weight = torch.nn.init.normal_(layer.weight, std=0.02).detach()
        cast = altgrad.Cast('format = "E2M1", block = 16, scaling = { type = "e4m3" }')
        expected = cast.apply(weight).values
        self.assertGreater(expected.count_nonzero(), 128)
        np.testing.assert_array_equal(layer(torch.eye(32)).detach().T.numpy(), expected.numpy())

    def test_inputs_of_no_rows_and_of_another_width(self):
        layer = quantized.QuantLinear(16, 8, recipe="te_delayed")
        x = torch.ones(0, 3, 16, requires_grad=True)
        y = layer(x)
        y.sum().backward()
        self.assertEqual((y.shape, x.grad.shape), ((0, 3, 8), (0, 3, 16)))
        self.assertEqual(layer.weight.grad.count_nonzero(), 0)
        before = layer.get_extra_state()
        for wrong in (torch.ones(4, 8), torch.ones(4, 32), torch.tensor(1.0)):
            with self.assertRaisesRegex(ValueError, "its input"):
                layer(wrong)
        with self.assertRaises(TypeError):
            layer([1.0])
        self.assertEqual(layer.get_extra_state(), before)

    def test_replaced_layers(self):
        """Shared layers stay shared, layers keep their mode, and a filter selects layers."""
        model = torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4), "b": torch.nn.Linear(4, 4)})
        model["c"] = model["a"]
        model["b"].eval()
        found = quantized.quantize_linears(model, "mxfp8")
        self.assertIs(found, model)
        self.assertTrue(all(type(layer) is quantized.QuantLinear for layer in model.values()))
        self.assertIs(model["a"], model["c"])
        self.assertEqual([model["a"].training, model["b"].training], [True, False])
        model, seen = Gpt(), []

        def choose(module, name):
            seen.append((type(module), name))
            return name.endswith("c_fc")

        quantized.quantize_linears(model, "mxfp8", filter_fn=choose)
        self.assertIn((torch.nn.Linear, "h.0.attn.c_attn"), seen)
        kinds = {name: type(module) is quantized.QuantLinear for name, module in model.named_modules()}
        self.assertEqual([name for name, is_quantized in kinds.items() if is_quantized], ["h.0.mlp.c_fc", "h.1.mlp.c_fc"])

    def test_models_that_cannot_be_replaced(self):
        plain = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        alone = torch.nn.Linear(4, 4)
        for model, options in ((alone, {}), (torch.nn.Sequential(torch.nn.ReLU()), {}), (plain, {"filter_fn": lambda *_: False})):
            with self.assertRaisesRegex(ValueError, "no layer of the model would be rounded"):
                quantized.quantize_linears(model, "mxfp8", **options)
        hook = plain[1].register_forward_hook(lambda *_: None)
        with self.assertRaisesRegex(ValueError, "'1.weight' has hooks"):
            quantized.quantize_linears(plain, "mxfp8")
        self.assertTrue(all(type(layer) is torch.nn.Linear for layer in plain))
        hook.remove()
        quantized.quantize_linears(plain, "mxfp8")

    def test_an_encoder_layer_rounds_in_evaluations(self):
        """In evaluations without gradients PyTorch's fast path would use the weights without their layers."""
        torch.manual_seed(0)
        model = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        quantized.quantize_linears(model, altgrad.Recipe.from_toml('[quant]\nweight = "E2M1"\nactivation = "E2M1"\n'))
        x = torch.randn(2, 3, 16)
        expected = model(x)
        model.eval()
        with torch.no_grad():
            torch.testing.assert_close(model(x), expected)

    def test_blocks_that_are_left_out(self):
        recipe = altgrad.Recipe.from_toml('[quant]\nweight = "E4M3"\nskip_first = 1\nexclude = ["lm_head.weight"]\n')
        model = quantized.quantize_linears(Gpt(), recipe)
        kinds = {name: type(module) for name, module in model.named_modules()}
        self.assertIs(kinds["h.0.mlp.c_fc"], torch.nn.Linear)
        self.assertIs(kinds["h.1.mlp.c_fc"], quantized.QuantLinear)
        self.assertIs(kinds["lm_head"], torch.nn.Linear)
        plain = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        quantized.quantize_linears(plain, recipe)
        self.assertTrue(all(type(module) is quantized.QuantLinear for module in plain))

    def test_refused_recipes(self):
        rotated = '[quant]\nweight = "E4M3"\n[quant.cast.weight]\ntransform = { hadamard = 16 }\n'
        delayed = '[quant]\nweight = "E4M3"\nblock = 16\nscaling = { amax = "delayed" }\n'
        changing = '[quant]\nweight = "E4M3"\n[[quant.schedule]]\nat = "80%"\nnone = true\n'
        refused = ((rotated, "transformed differently"), (delayed, "one scale"), (changing, "quant.schedule"))
        for recipe, why in refused:
            with self.assertRaisesRegex(ValueError, why):
                quantized.QuantLinear(32, 32, recipe=altgrad.Recipe.from_toml(recipe))
        with self.assertRaisesRegex(ValueError, "recipe"):
            quantized.QuantLinear(32, 32, recipe="none")
        with self.assertRaisesRegex(ValueError, "groups of 32"):
            quantized.QuantLinear(16, 16, recipe="quartet")(torch.ones(2, 16))
        with self.assertRaisesRegex(TypeError, "float32"):
            quantized.QuantLinear(2, 2, recipe="mxfp8")(torch.ones(2, 2).double())

    def test_losses_are_those_of_the_host(self):
        for case in trajectory.FOLLOWING:
            with self.subTest(case):
                found, losses = train(case), trajectory.CASES[case]
                gap = max(abs(own - other) for own, other in zip(found, losses["host"], strict=True))
                self.assertLess(gap, 1e-5, found)

    def test_a_restored_model_goes_on_with_the_same_bits(self):
        for case in trajectory.FOLLOWING:
            with self.subTest(case):
                self.assertEqual(train(case, interrupted=True), train(case))


if __name__ == "__main__":
    unittest.main()
