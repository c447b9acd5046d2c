"""Replays the recordings of SGD and Muon with PyTorch's optimizers: python against_torch.py. Needs PyTorch 2.9 or newer.

Prints the largest difference from the recorded parameters, which are rounded to f32, as a share of the largest movement since the start.
PyTorch's Muon rounds its Newton-Schulz steps to bf16; it is compared as it is, and without that rounding.
"""

import pathlib
import struct

import torch

HERE = pathlib.Path(__file__).parent.parent.parent / "optimizers"


def numbers(words):
    return torch.tensor([struct.unpack(">f", bytes.fromhex(word))[0] for word in words], dtype=torch.float64)


def sgd(param, name):
    options = {
        "plain": {},
        "dampened": {"momentum": 0.9, "dampening": 0.3},
        "nesterov": {"momentum": 0.95, "nesterov": True},
    }
    return torch.optim.SGD([param], lr=0.01, weight_decay=0.1, foreach=False, **options[name])


def muon(param, name):
    adjust = "original" if name == "heavy" else "match_rms_adamw"
    return torch.optim.Muon(
        [param], lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=name != "heavy", eps=1e-7, adjust_lr_fn=adjust
    )


def compare(path, shapes, make, peak):
    params, starts, optimizers, worst = {}, {}, {}, {}
    for line in (HERE / path).read_text().splitlines():
        kind, *rest = line.split()
        if kind == "start" and rest[0] in shapes:
            name = rest[0]
            starts[name] = numbers(rest[1:]).reshape(shapes[name])
            params[name] = starts[name].clone().requires_grad_()
            optimizers[name] = make(params[name], name)
        elif kind == "grad":
            t, grad = int(rest[0]), numbers(rest[1:])
            for name, param in params.items():
                optimizers[name].param_groups[0]["lr"] = peak * min(1.0, t / 10) * (1.0 if t < 50 else 0.5)
                param.grad = grad.reshape(param.shape).clone()
                optimizers[name].step()
        elif kind == "after" and rest[1] in shapes:
            name, recorded = rest[1], numbers(rest[2:]).reshape(shapes[rest[1]])
            error = (params[name].detach() - recorded).abs().max() / (recorded - starts[name]).abs().max()
            worst[name] = max(worst.get(name, 0.0), float(error))
    for name, error in worst.items():
        print(f"{path.split('/')[0]} {name}: {error:.1e}")


MUON = ("muon/tests/data/numpy_muon.txt", {"wide": (3, 4), "tall": (4, 3), "heavy": (4, 3)}, muon, 1e-3)


print("PyTorch", torch.__version__)
compare("sgd/tests/data/numpy_sgd.txt", dict.fromkeys(["plain", "dampened", "nesterov"], (3, 4)), sgd, 0.01)
compare(*MUON)
print("Newton-Schulz steps in float64:")
torch.bfloat16 = torch.float64
compare(*MUON)
