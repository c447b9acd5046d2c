"""Python's side of the tokenizer benchmark: reads documents (a JSON list on one line), says tiktoken's version, then for
each line with a number of threads encodes them all and answers seconds and the SHA-256 of the ids (u16, little-endian)."""
import array
import base64
import hashlib
import json
import os
import sys
import time

import tiktoken

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

path = os.environ.get("ALTGRAD_GPT2_RANKS")
if path:
    with open(path, "rb") as file:
        ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in file)}
    try:
        from tiktoken_ext.openai_public import r50k_pat_str as PATTERN
    except ImportError:
        pass
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
else:
    encoding = tiktoken.get_encoding("gpt2")

documents = json.loads(sys.stdin.readline())
print(tiktoken.__version__, flush=True)
for line in sys.stdin:
    threads = int(line)
    start = time.perf_counter()
    if threads == 1:
        ids = [encoding.encode_ordinary(document) for document in documents]
    else:
        ids = encoding.encode_ordinary_batch(documents, num_threads=threads)
    seconds = time.perf_counter() - start
    hash = hashlib.sha256()
    for document in ids:
        hash.update(array.array("H", document).tobytes())
    print(seconds, hash.hexdigest(), flush=True)
