#!/usr/bin/env bash
# Eleven fixed runs, a diff and a sweep: shows that a refactoring changes no output.
#
#   tests/equivalence/fixed-runs.sh HOST OUT     HOST: altgrad-host beside its plugins; OUT: an empty folder
#
# The runs cover formats, optimizers, scalings, sinks, resume, diff, and a sweep of four with its tables. OUT/manifest.txt
# lists the SHA-256 of every file that must be equal between two builds: metrics.csv, layers.csv, histograms.csv, weights,
# and tables. Compare two builds with `diff OLD/manifest.txt NEW/manifest.txt`. Takes about two minutes on two cores.
set -euo pipefail
host=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
configs=$(realpath "$(dirname "$0")/../../configs")
cd "$out"

train() { # NAME CONFIG [ARGS...]
    local name=$1 config=$2
    shift 2
    echo "== $name"
    "$host" run "$configs/$config" --out "$name" --device cpu --quiet --set train.max_steps=60 --set train.warmup_steps=10 \
        --set train.eval_interval=20 "$@" >"$name.log" 2>&1
}

train fp32 small/fp32_baseline.toml --set metrics.histograms_every=20 --set metrics.rank_every=30
train bf16 small/bf16_baseline.toml
train e5m2 small/e5m2_fp8.toml --set metrics.histograms_every=20 --set metrics.rank_every=30
train hybrid small/e4m3_e5m2_hybrid.toml --set shadow.every=10 --set train.grad_accum=2
train no_master small/e7m0_no_master.toml --set metrics.histograms_every=20
train blocks small/e3m4.toml --set 'quant.scaling.granularity="block"' --set quant.scaling.block=32 --set model.dropout=0.1
train delayed small/e1m6.toml --set 'quant.scaling.amax="delayed"' --set 'quant.grad_rounding="stochastic"' \
    --set 'quant.ste="clipped"' --set metrics.histograms_every=20
codes() {
    local name=$1 optimizer=$2 ulp=$3
    shift 3
    train "$name" optimizers/base.toml --set "optimizer.name=$optimizer" --set "optimizer.ulp_per_lr=$ulp" --set train.lr=1e-3 \
        --set train.min_lr=1e-4 "$@"
}
codes stiffness stiffness-adamw 1000 --set run.name=e4m3_stiffness_adamw_no_master --set metrics.histograms_every=20
codes manifold fp8-manifold 3000 --set run.name=e3m4_fp8_manifold_master --set optimizer.eps=1e-16 --set quant.weight=E3M4 \
    --set quant.master_weights=fp32 --set quant.weight_rounding=nearest-even --set quant.scaling.margin=1 \
    --set 'quant.scaling.granularity="channel"'

# Sinks: the same rows through CSV, TensorBoard and W&B's offline file.
cat >sinks.toml <<EOF
$(sed '/^\[\[sink\]\]/,$d' "$configs/small/e5m2_fp8.toml")
[[sink]]
name = "csv"
[[sink]]
name = "tensorboard"
[[sink]]
name = "wandb"
mode = "offline"
EOF
echo "== sinks"
"$host" run sinks.toml --out sinks --device cpu --quiet --set train.max_steps=30 --set train.warmup_steps=10 >sinks.log 2>&1

# Resume: 30 steps, then on to 60; equal to the run in one piece.
train resumed small/e5m2_fp8.toml --set metrics.histograms_every=20 --set metrics.rank_every=30 --max-steps 30
mv resumed.log resumed.first.log
train resumed small/e5m2_fp8.toml --set metrics.histograms_every=20 --set metrics.rank_every=30 --resume

# Diff: two formats in lockstep.
echo "== diff"
(cd "$configs" && "$host" diff small/e5m2_fp8.toml small/e3m4.toml --steps 2 --json) >diff.json 2>diff.log || [ $? = 1 ]

# A sweep of four with a learning rate found by trials, and its tables.
echo "== sweep"
cat >matrix.toml <<EOF
base = "$configs/small/e4m3_e5m2_hybrid.toml"
name = "matrix"
[set]
train.max_steps = 40
train.warmup_steps = 10
train.eval_interval = 20
[axes]
quant.weight = ["E4M3", "E3M4"]
[axes.run]
seed = [1, 2]
EOF
"$host" sweep matrix.toml --jobs 2 --out sweep >sweep.log 2>&1
# The last column is the speed, which differs between equal runs.
"$host" compare sweep/matrix --csv 2>/dev/null | sed 's/,[^,]*$//' >sweep-compare.csv
"$host" compare fp32 bf16 e5m2 hybrid no_master blocks --baseline fp32 --csv 2>/dev/null | sed 's/,[^,]*$//' >compare.csv
"$host" compare fp32 bf16 e5m2 hybrid no_master blocks --baseline fp32 --markdown 2>/dev/null |
    sed 's/|[^|]*|$/|/' >compare.markdown
"$host" report fp32 bf16 e5m2 hybrid no_master delayed --out report.html >report.log 2>&1

# Resolved run files, without the folder of the build under test.
for config in */config.toml; do
    grep -v '^dir = ' "$config" >"${config%.toml}.resolved"
done
find . \( -name metrics.csv -o -name layers.csv -o -name histograms.csv -o -name '*.safetensors' -o -name diff.json \
    -o -name '*compare.*' -o -name config.resolved \) | LC_ALL=C sort | xargs sha256sum >manifest.txt
wc -l <manifest.txt
