"""Makes numpy_sgd.txt, which the plugin's tests replay; `recording` is in plugins/optimizer-kit/recorded.

`PYTHONPATH=../../../../optimizer-kit/recorded python numpy_sgd.py > numpy_sgd.txt`. The update is that of the algorithm in PyTorch's documentation of
torch.optim.SGD, without `maximize`.
"""

from recording import record

TITLE = """
SGD by the algorithm in the documentation of torch.optim.SGD. Made by numpy_sgd.py.
Each parameter has options of its own: `plain` no momentum; `dampened` momentum 0.9, dampening 0.3, weight decay 0.1;
`nesterov` momentum 0.95 and Nesterov, weight decay 0.1. Weight decay is coupled.
"""

OPTIONS = {
    "plain": {"momentum": 0.0, "dampening": 0.0, "nesterov": False, "weight_decay": 0.1},
    "dampened": {"momentum": 0.9, "dampening": 0.3, "nesterov": False, "weight_decay": 0.1},
    "nesterov": {"momentum": 0.95, "dampening": 0.0, "nesterov": True, "weight_decay": 0.1},
}


def update(name, w, g, state, lr, t):
    options = OPTIONS[name]
    g = g + options["weight_decay"] * w
    if options["momentum"] != 0:
        if t > 1:
            state["b"] = options["momentum"] * state["b"] + (1 - options["dampening"]) * g
        else:
            state["b"] = g
        g = g + options["momentum"] * state["b"] if options["nesterov"] else state["b"]
    return w - lr * g


record(TITLE, 0.01, {name: (3, 4) for name in OPTIONS}, update)
