#!/usr/bin/env bash
# Runs its parts on a GPU, in SECONDS_LIMIT seconds together. Each writes a file to the folder OUT, whose summary.txt has their exit
# statuses. Without a GPU it is a rehearsal with small models, whose limits are SCALE times as long.
#
#   PYTHON=.venv/bin/python tests/gpu/first_minutes.sh OUT
set -uo pipefail
export OUT=$(realpath -m "${1:?The folder for the output is missing.}") PYTHONPATH=.
cd "$(dirname "$0")/../.."
scale=${SCALE:-1}
limit=$((scale * ${SECONDS_LIMIT:-230}))
mkdir -p "$OUT"
SECONDS=0 failed=0

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
    ((status == 0)) || failed=1
}

gpu() { command -v nvidia-smi >/dev/null; }
own=tests/gpu/first_minutes.py
part environment 40 -m torch.utils.collect_env
gpu && part kernels 40 tests/support/processors/interpret_kernels.py cuda
part buckets 50 $own buckets
part memory 20 $own memory
part served 60 $own served
part poisoned 20 $own poisoned
part decode_limit 40 $own decode_limit
part profile 25 $own profile
gpu && part tables 120 -m benchmarks.engine --random base --vocabulary 32000 --batches 1 32 256 --rounds 1 --device cuda
cat "$OUT/summary.txt"
exit $failed
