"""PyTorch's fused CPU AdamW beside our step: a process that steps when it is told to.

Usage: torch_adamw.py ELEMENTS THREADS. Prints a line when ready; for each line read, does one step and prints its seconds.
The tensors have one parameter's shape, 3.5 times its bytes move as in our step.
"""

import sys
import time

import torch

elements, threads = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(threads)
generator = torch.Generator().manual_seed(1)
weight = torch.nn.Parameter(torch.rand(elements, generator=generator) * 2 - 1)
weight.grad = torch.rand(elements, generator=generator) * 2 - 1
optimizer = torch.optim.AdamW([weight], lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
optimizer.step()
print(torch.__version__, flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    optimizer.step()
    print(time.perf_counter() - start, flush=True)
