"""Observed models: the values are those of altgrad-host for the same tensors, and the training does not change."""

import json
import math
import tempfile
import unittest
from pathlib import Path

import altgrad
import numpy as np

from tests import host, package
from tests.test_models import gpt2, inputs, losses

torch = package("torch")
import altgrad.torch as quantized  # noqa: E402
from altgrad import _rounding  # noqa: E402

nn = torch.nn
CASTS = {
    "E4M3": 'format = "E4M3", block = "tensor"',
    "E2M1": 'format = "E2M1", block = 16, scaling = { type = "e4m3", tensor = "f32" }',
    "MX": 'format = "E5M2", block = 32, scaling = { type = "e8m0", rule = "floor" }',
}


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))


def step(model, x):
    model(x).square().mean().backward()


def captured(model, run):
    """The matrices of all linear layers in a step, by layer and role, seen by hooks of this test."""
    found, handles = {}, []
    for name, module in model.named_modules():
        is_conv1d = type(module).__name__ == "Conv1D"
        if type(module) is not nn.Linear and not is_conv1d:
            continue

        def before(module, given, name=f"{name}.weight", is_conv1d=is_conv1d):
            weight = module.weight.detach()
            found[name, "weight"] = (weight.T if is_conv1d else weight).clone()
            found[name, "activation"] = given[0].detach().flatten(0, -2).clone()

        def after(module, given, output, name=f"{name}.weight"):
            def keep(gradient):
                found[name, "grad"] = gradient.flatten(0, -2).clone()

            output.register_hook(keep)

        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    run()
    for handle in handles:
        handle.remove()
    for (name, role), matrix in list(found.items()):
        second = {"weight": "weight_dgrad", "activation": "activation_wgrad", "grad": "grad_wgrad"}[role]
        found[name, second] = matrix.T.contiguous()
    return {key: matrix.contiguous().numpy() for key, matrix in found.items()}


def statistics(x, values):
    """Section 7.4 of docs/numerics.md, of finite matrices."""
    wide, rounded = x.astype(np.float64), values.astype(np.float64)
    error = ((rounded - wide) ** 2).sum()
    return {
        "elements": x.size,
        "amax": float(np.abs(x).max()) or None,
        "sqnr_db": 10 * math.log10((wide**2).sum() / error) if error and wide.any() else None,
        "underflow_rate": ((x != 0) & (values == 0)).sum() / (x != 0).sum() if x.any() else None,
        "zero_rate": (values == 0).mean(),
    }


class Observed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def of_host(self, text, x):
        """The values that altgrad-host gives a matrix, and its scales."""
        x.tofile(self.folder / "in.f32")
        options = ["--cast", text, "--shape", f"{x.shape[0]},{x.shape[1]}", "--axis", "rows"]
        files = ["--input", "in.f32", "--output", "out.f32", "--scales", "scales.f32"]
        host("casts", "apply", *options, *files, folder=self.folder)
        read = [np.fromfile(self.folder / name, np.float32) for name in ("out.f32", "scales.f32")]
        return read[0].reshape(x.shape), read[1]

    def check(self, model, run, roles):
        casts = {name: altgrad.Cast(text) for name, text in CASTS.items()}
        with quantized.observe(model, casts, roles) as seen:
            run()
        tensors = captured(model, run)
        rows = {(row["layer"], row["role"], row["format"]): row for row in seen.rows}
        self.assertEqual(len(rows), len(CASTS) * len([key for key in tensors if key[1] in roles]))
        for (layer, role, name), row in rows.items():
            with self.subTest(layer, role=role, format=name):
                x = tensors[layer, role]
                values, scales = self.of_host(CASTS[name], x)
                for key, expected in statistics(x, values).items():
                    found = row[key]
                    if key == "sqnr_db" and expected is not None:
                        # Formats add squares of some elements in f32 first.
                        self.assertAlmostEqual(found, expected, delta=1e-6)
                    else:
                        self.assertEqual(found, expected, key)
                if name == "E4M3":
                    self.assertEqual(np.float32(1) / np.float32(row["scale"]), scales[0])
                own, _ = _rounding.round_rows(casts[name], torch.from_numpy(x))
                np.testing.assert_array_equal(own.numpy().view(np.uint32), values.view(np.uint32))

    def test_values_are_those_of_the_host(self):
        torch.manual_seed(0)
        x = torch.randn(48, 32)
        roles = ("weight", "activation", "grad", "weight_dgrad", "activation_wgrad", "grad_wgrad")
        model = mlp()
        self.check(model, lambda: step(model, x), roles)

    def test_values_of_gpt2_are_those_of_the_host(self):
        torch.manual_seed(0)
        model, given = gpt2(n_layer=1).train(), inputs(gpt2)
        self.check(model, lambda: model(**given).loss.backward(), ("weight", "activation", "grad"))

    def test_training_does_not_change(self):
        for make in (gpt2, None):
            found = []
            for watches in (False, True):
                torch.manual_seed(0)
                model = make().train() if make else mlp()
                given = inputs(gpt2)
                x = torch.randn(16, 32)
                roles = ("activation", "weight", "grad", "weight_grad", "query", "key", "value", "norm", "embedding")

                def run(model=model, given=given, x=x):
                    if make:
                        return losses(model, given, 5)
                    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.1), []
                    for _ in range(5):
                        optimizer.zero_grad()
                        loss = model(x).square().mean()
                        loss.backward()
                        optimizer.step()
                        seen.append(loss.item())
                    return seen

                if watches:
                    with quantized.observe(model, ["E4M3", "mxfp8"], roles, every=2) as seen:
                        found.append(run())
                    self.assertEqual({row["step"] for row in seen.rows}, {0, 2, 4})
                    self.assertFalse(any(module._forward_hooks for module in model.modules()))
                    if make:
                        self.assertEqual({row["role"] for row in seen.rows}, set(roles))
                else:
                    found.append(run())
            self.assertEqual(*found)

    def test_recipes_have_the_casts_of_their_roles(self):
        model = mlp()
        with quantized.observe(model, ["mxfp8", "te_current"], ("weight", "weight_dgrad", "grad")) as seen:
            step(model, torch.randn(32, 32))
        kinds = {(row["role"], row["format"]) for row in seen.rows}
        # The backward products of te_current reuse the codes of the forward pass.
        self.assertEqual(kinds, {*((role, "mxfp8") for role in ("weight", "weight_dgrad", "grad")), ("weight", "te_current"), ("grad", "te_current")})
        x = model[0].weight.detach().numpy()
        values = altgrad.Recipe("mxfp8").cast("weight")[0].apply(x).values
        row = next(row for row in seen.rows if (row["layer"], row["role"], row["format"]) == ("0.weight", "weight", "mxfp8"))
        self.assertAlmostEqual(row["sqnr_db"], statistics(x, values)["sqnr_db"], delta=1e-6)

    def test_rounded_layers_and_evaluations(self):
        model = quantized.quantize_linears(mlp(), "te_current")
        with quantized.observe(model, ["E4M3"], "activation") as seen:
            model.eval()(torch.randn(4, 32))
            self.assertEqual(seen.step, -1)
            step(model.train(), torch.randn(4, 32))
        self.assertEqual({row["layer"] for row in seen.rows}, {"0.weight", "2.weight", "4.weight"})

    def test_a_layer_that_runs_twice_is_pooled(self):
        layer = nn.Linear(16, 16)
        model = nn.Sequential(layer, nn.ReLU(), layer)
        with quantized.observe(model, ["E4M3"], ("weight", "activation")) as seen:
            step(model, torch.randn(4, 16))
        self.assertEqual({row["role"]: row["elements"] for row in seen.rows}, {"weight": 256, "activation": 128})

    def test_refused_arguments(self):
        model = mlp()
        for arguments, why in (
            ((["E4M3"], ["weights"]), "roles must be"),
            (([],), "no format"),
            ((["E4M3", "E4M3"],), "one name"),
            (({"a/b": "E4M3"},), "cannot name"),
            ((["nonsense"],), "nonsense"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                quantized.observe(model, *arguments)
        with self.assertRaisesRegex(ValueError, "every must be"):
            quantized.observe(model, ["E4M3"], every=0)
        with self.assertRaisesRegex(ValueError, "compiled"):
            quantized.observe(torch.compile(model), ["E4M3"])
        (self.folder / "file").touch()
        with self.assertRaises(FileExistsError):
            quantized.observe(model, ["E4M3"], out=self.folder)

    def observed_run(self, name, seed, rate):
        model, x = mlp(), torch.randn(16, 32)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        config = {"run.seed": seed, "train.lr": rate}
        with quantized.observe(model, ["E4M3", "E2M1"], every=2, out=self.folder / "runs" / name, config=config) as seen:
            for _ in range(6):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                seen.log(loss=loss, held_out=loss if seen.step == 5 else None)
        return seen, loss.item()

    def test_run_folders_are_read(self):
        package("pandas")
        for index, (seed, rate) in enumerate([(1, 0.1), (2, 0.1), (1, 0.01), (2, 0.01)]):
            seen, loss = self.observed_run(f"r{index}", seed, rate)
        runs = altgrad.runs(self.folder / "runs")
        self.assertEqual((len(runs), runs.left_out), (4, []))
        run = runs["r3"]
        self.assertEqual((run.state, run.steps, run.seed, run.notes), ("completed", 6, "2", []))
        self.assertAlmostEqual(run.loss, loss)
        self.assertEqual(list(run.metrics["step"]), [0, 1, 2, 3, 4, 5])
        frame = seen.frame()
        self.assertEqual(set(frame["step"]), {0, 2, 4})
        layers = run.layers
        of = (layers["layer"] == "2.weight") & (layers["metric"] == "observe/grad/sqnr_db/E4M3") & (layers["step"] == 4)
        own = (frame["layer"] == "2.weight") & (frame["role"] == "grad") & (frame["format"] == "E4M3") & (frame["step"] == 4)
        self.assertEqual(layers[of]["value"].item(), frame[own]["sqnr_db"].item())
        self.assertEqual(len(runs.compare(baseline=None)), 2)

    def test_the_host_reports_and_compares_run_folders(self):
        for index, (seed, rate) in enumerate([(1, 0.1), (2, 0.1), (1, 0.01), (2, 0.01)]):
            self.observed_run(f"r{index}", seed, rate)
        host("report", self.folder / "runs", "--out", self.folder / "report.html")
        page = (self.folder / "report.html").read_text()
        self.assertIn("Formats by role", page)
        compared = json.loads(host("compare", self.folder / "runs", "--json"))["comparison"]
        self.assertEqual(len(compared["rows"]), 2)


if __name__ == "__main__":
    unittest.main()
