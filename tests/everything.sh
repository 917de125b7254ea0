#!/bin/sh
# All tests that need no other machine: `make test`. Each runner's report is printed whole, one after the other.
#
# Integration tests that are marked `beside` run beside each other, two for a CPU because they wait, too; the files that
# take longest begin first (integration/conftest.py). The rest have the machine for themselves, but for what asks no kernel
# for anything, and runs at idle priority (SCHED_IDLE), so that every task of an integration test goes before it: part of
# the integration tests marked `idle`, which wait most, from the beginning; all else while one test at a time leaves CPUs
# to others. Of the unit tests a process for each part: thousands take no time, and to hand them out one by one would take
# a tenth of all. They are such parts as end together.
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

fleet=tests/integration/test_ansible_fleet.py sources=tests/unit/toolkit/sources report=tests/unit/toolkit/report
begin 1 -m "not slow and idle" --ignore=$fleet tests/integration
"$python" -m pytest -n $((cpus * 2)) --dist loadfile --no-loadscope-reorder -m "not slow and beside" tests/integration
beside=$?
begin 2 -m "not slow" --ignore=$sources --ignore=$report tests/unit/toolkit
begin 3 -m "not slow" --ignore=tests/unit/toolkit tests/unit
begin 4 -m "not slow" $fleet $sources
begin 5 -m "not slow" $report
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
