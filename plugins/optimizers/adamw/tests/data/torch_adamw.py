"""Makes torch_adamw.txt, which the plugin's tests replay: `python torch_adamw.py > torch_adamw.txt`. Needs PyTorch."""

import struct

import torch

STEPS, RECORDED = 100, (1, 2, 10, 50, 100)
HEADER = f"""\
# torch.optim.AdamW of PyTorch {torch.__version__}, CPU, f32, foreach=False, fused=False. Made by torch_adamw.py.
# betas 0.9 0.95, eps 1e-8; `matrix` [3, 4] has weight decay 0.1, `vector` [12] none; both get the same gradient.
# Learning rate of step t: 1e-3 * min(1, t / 10), halved from t = 50 on.
# Words are f32 bits in hexadecimal. start: before step 1; grad T: gradient of step T; after T: parameters then."""


def words(tensor):
    return " ".join(struct.pack(">f", x).hex() for x in tensor.detach().flatten().tolist())


def gradient(t, generator):
    """Normal numbers of very different sizes; the first three are zero in the first step."""
    sizes = 10.0 ** torch.randint(-4, 1, (12,), generator=generator)
    grad = torch.randn(12, generator=generator) * sizes
    if t == 1:
        grad[:3] = 0
    return grad


generator = torch.Generator().manual_seed(1)
params = {
    name: (0.1 * torch.randn(shape, generator=generator)).requires_grad_()
    for name, shape in (("matrix", (3, 4)), ("vector", (12,)))
}
optimizer = torch.optim.AdamW(
    [{"params": [params["matrix"]], "weight_decay": 0.1}, {"params": [params["vector"]], "weight_decay": 0.0}],
    betas=(0.9, 0.95),
    eps=1e-8,
    foreach=False,
    fused=False,
)
print(HEADER)
for name, param in params.items():
    print("start", name, words(param))
for t in range(1, STEPS + 1):
    grad = gradient(t, generator)
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 * min(1.0, t / 10) * (1.0 if t < 50 else 0.5)
    for param in params.values():
        param.grad = grad.reshape(param.shape).clone()
    optimizer.step()
    print("grad", t, words(grad))
    if t in RECORDED:
        for name, param in params.items():
            print("after", t, name, words(param))
