"""Rounded layers of every kind, in models of Hugging Face's transformers that are built from configurations."""

import tempfile
import unittest
import warnings

import altgrad
import numpy as np

from tests import package

torch = package("torch")
import altgrad.torch as quantized  # noqa: E402

nn = torch.nn
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def gpt2(**changes):
    """A GPT-2 of two blocks of four `Conv1D` each, and a head that shares the embedding."""
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 64, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}
    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    transformers = package("transformers")
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**(sizes | dropout | changes)))


def llama():
    """A Llama of two blocks of seven linear layers each, with grouped queries."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    transformers = package("transformers")
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, num_key_value_heads=2, vocab_size=64))


def vit():
    """A vision transformer of two blocks of six linear layers each, a convolution of patches, and a classifier."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    transformers = package("transformers")
    config = transformers.ViTConfig(**sizes, image_size=16, patch_size=4, num_labels=8)
    return transformers.ViTForImageClassification(config)


def inputs(make, dtype=torch.float32):
    """The arguments of a forward pass with its loss."""
    torch.manual_seed(1)
    if make is vit:
        return {"pixel_values": torch.randn(4, 3, 16, 16).to(dtype), "labels": torch.randint(8, (4,))}
    tokens = torch.randint(64, (4, 16))
    return {"input_ids": tokens, "labels": tokens}


def rounded(make, recipe="mxfp8", dtype=torch.float32, **options):
    torch.manual_seed(0)
    model = make().to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return quantized.quantize_linears(model, recipe, **options).train()


def losses(model, given, steps, autocast=False, rate=3e-3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    found = []
    for _ in range(steps):
        with torch.autocast("cpu", enabled=autocast):
            loss = model(**given).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def layers_of_every_kind():
    """A layer, a shape of its input, and functions that give its weight as `[groups, out, in]` and its tensors as rows."""

    def grouped(groups):
        def rows(x):
            batch, channels = x.shape[:2]
            parts = x.reshape(batch, groups, channels // groups, -1)
            return torch.cat([parts[:, group].transpose(1, 2).flatten(0, 1)[None] for group in range(groups)])

        return rows

    def plain(x):
        return x.reshape(1, -1, x.shape[-1])

    yield "Linear", nn.Linear(64, 96), (2, 48, 64), lambda w: w[None], plain
    try:
        from transformers.pytorch_utils import Conv1D

        yield "Conv1D", Conv1D(96, 64), (2, 48, 64), lambda w: w.T[None], plain
    except ImportError:
        pass
    yield "Conv1d", nn.Conv1d(64, 96, 1), (2, 64, 48), lambda w: w[None, :, :, 0], grouped(1)
    yield "Conv2d", nn.Conv2d(64, 96, 1, groups=2), (2, 64, 6, 8), lambda w: w.view(2, 48, 32), grouped(2)


class Models(unittest.TestCase):
    def test_each_kind_is_a_hand_written_layer(self):
        """Outputs and gradients of a layer of each kind and type, written out with casts of matrices."""
        for recipe_name in ("te_current", "mxfp8"):
            recipe = altgrad.Recipe(recipe_name)

            def cast(use, matrices, recipe=recipe):
                """The values of `[groups, rows, contraction]` as one matrix."""
                found, source, _ = recipe.cast(use)
                flat = matrices.detach().flatten(0, 1).contiguous()
                return None if source == "reuse" else found.apply(flat, axis="rows").values.view(matrices.shape).double()

            for type_name, dtype in TYPES.items():
                torch.manual_seed(0)
                for name, layer, shape, matrix, rows in layers_of_every_kind():
                    with self.subTest(name, recipe=recipe_name, type=type_name):
                        layer = layer.to(dtype)
                        x = torch.randn(shape).to(dtype).requires_grad_()
                        y = layer(x)
                        g = torch.randn(y.shape).to(dtype)
                        own = quantized.QuantLayer.from_layer(layer, recipe=recipe)
                        found = own(x)
                        self.assertEqual((found.shape, found.dtype), (y.shape, dtype))
                        found.backward(g)
                        a, b, h = cast("activation", rows(x)), cast("weight", matrix(layer.weight)), cast("grad", rows(g))
                        bias = layer.bias.detach().double().view(b.shape[0], 1, -1)
                        product = a @ b.mT + bias
                        turned = cast("weight_dgrad", matrix(layer.weight).mT)
                        dx = h @ (b if turned is None else turned.mT)
                        gw, xw = cast("grad_wgrad", rows(g).mT), cast("activation_wgrad", rows(x).mT)
                        dw = (h.mT if gw is None else gw) @ (a if xw is None else xw.mT)
                        # Sums in float32, rounded once to the type.
                        close = {"rtol": 2e-5 + torch.finfo(dtype).eps, "atol": 2e-4}
                        for own_part, part in (
                            (rows(found), product),
                            (rows(x.grad), dx),
                            (matrix(layer.weight.grad), dw),
                            (layer.bias.grad, rows(g).double().sum(1).flatten()),
                        ):
                            self.assertEqual(own_part.dtype, dtype)
                            torch.testing.assert_close(own_part.double(), part, **close)
                        layer.zero_grad()

    def test_layers_of_models(self):
        counts = {gpt2: (8, ["lm_head"], []), llama: (14, ["lm_head"], []), vit: (13, [], 1)}
        for make, (count, excluded, unsupported) in counts.items():
            with self.subTest(make.__name__):
                found = quantized.layers(rounded(make))
                self.assertEqual(len(found.rounded), count, str(found))
                self.assertEqual(list(found.excluded), excluded)
                if make is vit:
                    (name,) = found.unsupported
                    self.assertIn("patch_embeddings", name)
                else:
                    self.assertEqual(found.unsupported, {})

    def test_models_train(self):
        """Losses are finite and fall over 100 steps."""
        for make in (gpt2, llama, vit):
            for recipe in ("te_current", "mxfp8"):
                for name in ("f32", "bf16", "autocast"):
                    with self.subTest(make.__name__, recipe=recipe, type=name):
                        dtype = TYPES.get(name, torch.float32)
                        model = rounded(make, recipe, dtype)
                        found = losses(model, inputs(make, dtype), 100, name == "autocast")
                        self.assertTrue(np.isfinite(found).all(), found)
                        self.assertLess(found[-1], found[0] / 2, found)

    def test_a_compiled_model_has_the_losses_of_the_model(self):
        """The operation is opaque: the graph has no breaks, and stochastic bits go on from step to step."""
        text = '[quant]\nweight = "E4M3"\nactivation = "E4M3"\ngrad = "E5M2"\ngrad_rounding = "stochastic"\nblock = 32\n'
        for recipe in ("te_delayed", altgrad.Recipe.from_toml(text)):
            found = []
            for compiles in (False, True):
                torch.manual_seed(0)
                model = quantized.quantize_linears(nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)), recipe)
                own = torch.compile(model, backend="aot_eager", fullgraph=True) if compiles else model
                x, optimizer = torch.randn(32, 32), torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(5):
                    optimizer.zero_grad()
                    loss = (own(x) - 1).square().mean()
                    loss.backward()
                    optimizer.step()
                    found.append(loss.item())
                self.assertEqual(model[0].step, 5)
            self.assertEqual(found[:5], found[5:])

    def test_a_distributed_model_has_the_losses_of_the_model(self):
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_gloo_available()):
            self.skipTest("PyTorch has no gloo")
        with tempfile.TemporaryDirectory() as folder:
            distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            self.addCleanup(distributed.destroy_process_group)
            found = []
            for is_distributed in (False, True):
                torch.manual_seed(0)
                model = quantized.quantize_linears(nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32)), "te_delayed")
                own = nn.parallel.DistributedDataParallel(model) if is_distributed else model
                x, optimizer = torch.randn(32, 32), torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(5):
                    optimizer.zero_grad()
                    loss = (own(x) - 1).square().mean()
                    loss.backward()
                    optimizer.step()
                    found.append(loss.item())
            self.assertEqual(found[:5], found[5:])

    def test_autocast_rounds_the_same_operands(self):
        torch.manual_seed(0)
        layer = quantized.QuantLinear(32, 16, recipe="te_current")
        x, g = torch.randn(8, 32, requires_grad=True), torch.randn(8, 16).bfloat16()
        found = []
        for enabled in (False, True):
            layer.zero_grad()
            x.grad = None
            with torch.autocast("cpu", enabled=enabled):
                y = layer(x)
            y.backward(g.to(y.dtype))
            self.assertEqual(y.dtype, torch.bfloat16 if enabled else torch.float32)
            found.append([y.detach().bfloat16(), x.grad.clone(), layer.weight.grad.clone()])
        for one, other in zip(*found, strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_a_model_of_which_nothing_would_be_rounded(self):
        recipe = altgrad.Recipe.from_toml('[quant]\nweight = "E4M3"\nexclude = ["*"]\n')
        model = nn.Sequential(nn.Linear(4, 4), nn.Conv1d(4, 4, 3))
        with self.assertRaisesRegex(ValueError, "no layer of the model would be rounded(.|\n)*0: the recipe(.|\n)*1: a convolution"):
            quantized.quantize_linears(model, recipe)
        self.assertIs(type(model[0]), nn.Linear)
        with self.assertRaisesRegex(ValueError, "no rounded layers"):
            quantized.layers(model)

    def test_unsupported_layers_are_named(self):
        class Experts(nn.Module):
            def __init__(self):
                super().__init__()
                self.up = nn.Parameter(torch.ones(2, 4, 4))

        class Own(nn.Linear):
            pass

        parts = {"a": nn.Linear(4, 4), "own": Own(4, 4), "wide": nn.Conv1d(4, 4, 3), "experts": Experts()}
        parts |= {"attention": nn.MultiheadAttention(4, 1), "recurrent": nn.GRU(4, 4), "embedding": nn.Embedding(4, 4)}
        parts["padded"] = nn.Conv2d(4, 4, 1, padding=1)
        with self.assertWarnsRegex(UserWarning, "layers with products stay unrounded: own"):
            model = quantized.quantize_linears(nn.ModuleDict(parts), "te_current")
        found = quantized.layers(model)
        self.assertEqual(found.rounded, ["a"])
        names = ["own", "wide", "experts", "attention", "attention.out_proj", "recurrent", "padded"]
        self.assertEqual(list(found.unsupported), names)
        self.assertIn("experts: the parameter up has three dimensions", str(found))

    def test_a_layer_that_runs_again_in_its_backward_pass_warns(self):
        from torch.utils.checkpoint import checkpoint

        text = '[quant]\nweight = "E4M3"\nrounding = "stochastic"\n'
        stochastic = altgrad.Recipe.from_toml(text)
        for recipe, warns in (("te_delayed", True), (stochastic, True), ("te_current", False)):
            for reentrant in (False, True):
                with self.subTest(str(recipe), reentrant=reentrant), warnings.catch_warnings(record=True) as found:
                    warnings.simplefilter("always")
                    layer = quantized.QuantLinear(16, 16, recipe=recipe, layer="h.0.c")
                    x = torch.ones(2, 16, requires_grad=True)
                    for _ in range(2):
                        checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
                    said = [str(one.message) for one in found if "ran again" in str(one.message)]
                    self.assertEqual(bool(said), warns)
                    self.assertTrue(all("'h.0.c'" in text for text in said))
                    for _ in range(2):
                        layer.zero_grad()
                        layer(x).sum().backward()
                    self.assertEqual(len([one for one in found if "ran again" in str(one.message)]), len(said))

    def test_a_convolution_with_strides_and_without_a_batch(self):
        torch.manual_seed(0)
        exact = altgrad.Recipe.from_toml('[quant]\nweight = "E8M7"\n')
        convolution = nn.Conv2d(6, 4, 1, stride=(2, 3), groups=2)
        convolution.weight.data = convolution.weight.data.bfloat16().float()
        layer = quantized.QuantLayer.from_layer(convolution, recipe=exact)
        for x in (torch.randn(2, 6, 5, 7), torch.randn(6, 5, 7)):
            torch.testing.assert_close(layer(x), convolution(x))
        with self.assertRaisesRegex(ValueError, "another width"):
            quantized.QuantLayer.from_layer(nn.Conv1d(4, 4, 3), recipe="mxfp8")

    def test_operations_of_other_devices_have_the_same_bits(self):
        """The operations that compute casts on other devices, here on the CPU, and the compiled half."""
        from altgrad._rounding import by_operations, round_rows

        random = np.random.default_rng(0)
        x = (random.normal(size=(50, 70)) * np.exp2(random.integers(-12, 12, size=(50, 1)))).astype(np.float32)
        x[3], x[4, 5] = 0, -0.0
        bad = x.copy()
        bad[7, 9], bad[20, 3] = np.inf, np.nan
        casts = {f"{name}, {rounding}": altgrad.Cast(f'format = "{name}", rounding = "{rounding}"') for name in altgrad.formats() for rounding in ("nearest-even", "nearest-away", "toward-zero")}
        casts |= {"none": altgrad.Cast('format = "E4M3", block = "none"'), "tiles": altgrad.Cast('format = "E2M1", block = [16, 32]')}
        for name in altgrad.Recipe.names():
            for use in ("weight", "activation", "grad", "grad_wgrad"):
                found, *_ = altgrad.Recipe(name).cast(use)
                if found is not None:
                    casts[f"{name}, {use}"] = found
        done = 0
        for name, cast in casts.items():
            plan = cast._core.plan(*x.shape)
            if plan is None:
                continue
            done += 1
            for matrix in (x, bad):
                with self.subTest(name, special=matrix is bad):
                    tensor = torch.from_numpy(matrix)
                    expected, seen = round_rows(cast, tensor)
                    values, own = by_operations(cast, tensor, plan, None)
                    np.testing.assert_array_equal(values.numpy(), expected.numpy())
                    for key in ("amax", "scale"):
                        np.testing.assert_array_equal(*(np.float32(np.nan if part[key] is None else part[key]) for part in (own, seen)))
                    if matrix is x:
                        np.testing.assert_array_equal(expected.numpy(), cast.apply(x).values)
        self.assertGreater(done, 60)


if __name__ == "__main__":
    unittest.main()
