#!/usr/bin/env bash
# Runs its parts on a GPU, in SECONDS_LIMIT seconds together. Each writes a file to the folder OUT, whose summary.txt has their exit
# statuses. Without a GPU it is a rehearsal with small models, whose limits are SCALE times as long.
#
#   PYTHON=.venv/bin/python tests/gpu/first_minutes.sh OUT
set -uo pipefail
export OUT=$(realpath -m "${1:?The folder for the output is missing.}") PYTHONPATH=.${PYTHONPATH:+:$PYTHONPATH}
cd "$(dirname "$0")/../.."
scale=${SCALE:-1}
limit=$((scale * ${SECONDS_LIMIT:-230}))
mkdir -p "$OUT"
SECONDS=0

# part NAME SECONDS ARGUMENTS OF PYTHON
part() {
    local name=$1 most=$((scale * $2)) began=$SECONDS left=$((limit - SECONDS)) status
    shift 2
    if ((left < 5)); then
        echo "$name: not run, no time is left" >>"$OUT/summary.txt"
        return
    fi
    timeout $((most < left ? most : left)) "${PYTHON:-python3}" "$@" >"$OUT/$name.txt" 2>&1
    status=$?
    echo "$name: status $status after $((SECONDS - began)) s" >>"$OUT/summary.txt"
}

gpu() { command -v nvidia-smi >/dev/null; }
own=tests/gpu/first_minutes.py
# Whether it is right: side by side.
part environment 40 -m torch.utils.collect_env &
gpu && part kernels 60 tests/support/processors/interpret_kernels.py cuda &
gpu && part tests 110 -m pytest -q -n 0 -p no:cacheprovider tests/gpu &
for name in buckets unloaded served poisoned; do part $name 80 $own $name & done
wait
# How fast it is, and what needs all of the memory: alone.
for name in decode_limit memory worker profile; do part $name 45 $own $name; done
table="-m benchmarks.engine --random base --vocabulary 32000 --rounds 1 --device cuda"
gpu && part greedy_table 60 $table --beams 1 --batches 1 32 256
gpu && part beam_table 60 $table --beams 4 --batches 1 8 64
cat "$OUT/summary.txt"
! grep -qv "status 0" "$OUT/summary.txt"
