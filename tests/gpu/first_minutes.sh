#!/usr/bin/env bash
# Runs the parts of first_minutes.py on a GPU, in SECONDS_LIMIT seconds together. Each writes a file to the folder OUT, whose
# summary.txt has their exit statuses. Without a GPU it is a rehearsal with small models, whose limits are SCALE times as long.
#
#   PYTHON=.venv/bin/python tests/gpu/first_minutes.sh OUT
set -uo pipefail
out=$(realpath -m "${1:?The folder for the output is missing.}")
cd "$(dirname "$0")/../.."
scale=${SCALE:-1}
limit=$((scale * ${SECONDS_LIMIT:-230}))
mkdir -p "$out"
SECONDS=0

part() {
    local name=$1 most=$((scale * $2)) began=$SECONDS left=$((limit - SECONDS)) status
    if ((left < 5)); then
        echo "$name: not run, no time is left" >>"$out/summary.txt"
        return
    fi
    PYTHONPATH=. OUT="$out" timeout $((most < left ? most : left)) "${PYTHON:-python3}" tests/gpu/first_minutes.py "$name" >"$out/$name.txt" 2>&1
    status=$?
    echo "$name: status $status after $((SECONDS - began)) s" >>"$out/summary.txt"
    ((status == 0)) || failed=1
}

failed=0
part environment 40
part kernels 40
part buckets 50
part memory 20
part served 60
part poisoned 20
part decode_limit 40
part profile 25
part tables 120
cat "$out/summary.txt"
exit $failed
