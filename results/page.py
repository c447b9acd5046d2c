"""The README's picture of the report, from the record of where/: python3 results/page.py [HOST] (with chromium and a built host)

The runs are those of where/together.toml: five seeds of fp32 and of six formats for all roles and layer types. The picture names the sha256 of
their record; `results/tables.py --check` compares it.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

from figures import digest

HERE = pathlib.Path(__file__).parent
RECORD, PICTURE = HERE / "where/losses.csv", HERE.parent / "docs/report.png"


def run_folder(folder, form, seed, loss):
    folder.mkdir(parents=True)
    quant = "" if form == "fp32" else "[quant]\n" + "".join(f'{role} = "{form}"\n' for role in ["weight", "activation", "grad"])
    (folder / "config.toml").write_text(f'[run]\nname = "{folder.name}"\nseed = {seed}\n[train]\nmax_steps = 200\n{quant}')
    (folder / "metrics.csv").write_text(f"step,val/loss\n200,{loss}\n")
    status = {"name": folder.name, "status": "completed", "steps": 200, "final_val_loss": float(loss)}
    (folder / "run.json").write_text(json.dumps(status))


def main(host="target/altgrad/altgrad-host"):
    with tempfile.TemporaryDirectory() as scratch:
        runs = pathlib.Path(scratch) / "runs"
        for line in RECORD.read_text().splitlines()[1:]:
            form, role, _, seed, loss = line.split(",")
            if form not in ["bf16", "INT8"] and role in ["none", "together"]:
                run_folder(runs / f"{form}_s{seed}", form, seed, loss)
        page, shot = runs.with_suffix(".html"), runs.with_suffix(".png")
        subprocess.run([host, "report", runs, "--out", page, "--title", "Six formats"], check=True)
        chromium = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,1150"]
        subprocess.run([*chromium, f"--screenshot={shot}", page.as_uri()], check=True, stderr=subprocess.DEVNULL)
        png = shot.read_bytes()
    # The text comes before the last chunk, IEND, whose 12 bytes are the same in all files.
    chunk = b"tEXt" + b"Source\0results/where/losses.csv, sha256 " + digest(RECORD).encode()
    text = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    PICTURE.write_bytes(png[:-12] + text + png[-12:])


main(*sys.argv[1:])
