"""Token bins of a byte-level BPE with SIZE tokens: python3 results/vocabulary/tokens.py BYTES SIZE OUT

BYTES is a folder that `data prepare --tokenizer byte` wrote. The tokenizer is trained on its training split. Needs the packages `tokenizers` and `numpy`.
"""

import json
import pathlib
import sys

import numpy
from tokenizers import Tokenizer, models, pre_tokenizers, trainers


def parts(folder, split):
    """The text of a split, in parts of 100,000 characters."""
    text = numpy.fromfile(folder / f"{split}.bin", dtype="<u2").astype("u1").tobytes().decode()
    return [text[at : at + 100_000] for at in range(0, len(text), 100_000)]


def main(source, size, out):
    source, out = pathlib.Path(source), pathlib.Path(out)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_of = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=int(size), initial_alphabet=bytes_of, show_progress=False)
    tokenizer.train_from_iterator(parts(source, "train"), trainer)
    assert tokenizer.get_vocab_size() == int(size), tokenizer.get_vocab_size()
    out.mkdir(parents=True, exist_ok=True)
    for split in ("train", "val"):
        ids = [id for of in tokenizer.encode_batch(parts(source, split)) for id in of.ids]
        numpy.array(ids, dtype="<u2").tofile(out / f"{split}.bin")
        print(f"{split}: {len(ids)} tokens")
    (out / "meta.json").write_text(json.dumps({"vocab_size": int(size)}))


main(*sys.argv[1:])
