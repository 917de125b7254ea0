#!/bin/sh
# All tests that need no other machine: `make test`. Each runner's report is printed whole, one after the other.
#
# Most integration tests wait for windows. Tests that ask no kernel for anything use the CPUs meanwhile, at idle priority
# (SCHED_IDLE), so that every task of an integration test goes before them: the unit tests, and the integration tests
# marked `idle`, in three parts that take equally long (of thousands of tests that take no time each a tenth would go into
# handing them out). Integration tests that are marked `beside` run beside each other, two for a CPU because they wait,
# too; the files that take longest begin first (integration/conftest.py). The rest have the machine for themselves, but for
# what is idle.
# usage: sh tests/everything.sh PYTHON
set -u
python=$1
cpus=$(nproc)
idle="chrt --idle 0"
$idle true 2>/dev/null || idle="nice -n 19" # a container may forbid it
logs=$(mktemp -d)
idlers=
trap '[ -z "$idlers" ] || kill $idlers 2>/dev/null; rm -rf "$logs"' EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM

# usage: begin NAME PYTEST-ARGUMENT... : at idle priority, in the background
begin() {
	log=$logs/$1
	shift
	$idle "$python" -m pytest -p no:cacheprovider "$@" >"$log" 2>&1 &
	idlers="$idlers $!"
}

sources=tests/unit/toolkit/sources
begin 1 -m "not slow and (idle or not integration)" tests/integration $sources
begin 2 -m "not slow" --ignore=$sources tests/unit/toolkit
begin 3 -m "not slow" --ignore=tests/unit/toolkit tests/unit
"$python" -m pytest -n $((cpus * 2)) --dist loadfile --no-loadscope-reorder -m "not slow and beside" tests/integration
beside=$?
"$python" -m pytest -m "not slow and not beside and not idle" tests/integration
codes="$beside $?"
for one in $idlers; do
	wait "$one"
	codes="$codes $?"
done
idlers=
cat "$logs"/*
for code in $codes; do
	[ "$code" -eq 0 ] || exit "$code"
done
