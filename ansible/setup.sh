#!/bin/sh
# Makes this machine ready to run pinproof from this checkout: packages of the distribution, and .venv.
# It is what `make conformance` and `make test` call first; nodes of a fleet use the role pinproof_install.
#
#   ansible/setup.sh run    what `pinproof` needs
#   ansible/setup.sh test   also what the tests and the linters need
#
# Idempotent: a stamp in .venv makes the second call return at once. What is optional and cannot be had is a note on
# stderr; what is needed and cannot be had ends in one clear line and exit code 4 (this host cannot run it).
# Works with apt (Debian, Ubuntu). The dnf names (Fedora, RHEL) are written down but were never run: see unverified().
set -eu

level=${1:-run}
case $level in
run | test) ;;
*)
	echo "setup: unknown level '$level': expected run or test" >&2
	exit 2
	;;
esac
cd "$(dirname "$0")/.."
umask 022

# An interpreter of the distribution, never one of pyenv or conda: what this machine has is then what its users have.
# Where its python3 is older than 3.11 (Ubuntu 22.04, RHEL 9) a newer one that is packaged beside it: bcc serves it too.
python=/usr/bin/python3
venv=.venv
wheels_min="3.11"

say() { printf 'setup: %s\n' "$*" >&2; }
note() { printf 'setup: note: %s\n' "$*" >&2; }
cannot() {
	printf 'setup: this machine cannot be set up: %s\n' "$*" >&2
	exit 4
}

# The key names everything that decides what has to be installed; a moved checkout sets up again.
stamp_key() {
	{
		pwd -P
		cat ansible/setup.sh pyproject.toml
	} | sha256sum | cut -d' ' -f1
}
stamp=$venv/.pinproof-$level
ready() {
	for file in "$@"; do
		[ -r "$file" ] && [ "$(cat "$file")" = "$key" ] && [ -x $venv/bin/pinproof ] && return 0
	done
	return 1
}
key=$(stamp_key)
# A machine that was set up for the tests can also run.
if [ "$level" = run ]; then ready $venv/.pinproof-run $venv/.pinproof-test && exit 0; else ready "$stamp" && exit 0; fi
# One at a time; what waited finds it done. Services that a package starts must not keep the lock (-o).
if [ -z "${PINPROOF_SETUP:-}" ] && command -v flock >/dev/null 2>&1 && mkdir -p .cache 2>/dev/null && [ -w .cache ]; then
	PINPROOF_SETUP=alone exec flock -o .cache/setup.lock sh ansible/setup.sh "$level"
fi
unset PINPROOF_SETUP

have() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" = 0 ]; }

unverified() {
	note "the package names for dnf (Fedora, RHEL) are written from their documentation and were never run;" \
		"please report what was wrong"
}

# ---------------------------------------------------------------- packages
if have apt-get; then
	family=apt
elif have dnf; then
	family=dnf
	unverified
else
	family=none
fi

apt() {
	# No questions, patience with another package manager at work, and never an upgrade of what is there.
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@" >&2
}
lists_fetched=no
fetch_lists() {
	[ $lists_fetched = yes ] && return
	lists_fetched=yes
	say "fetching the package lists"
	apt update || note "apt-get update reported errors (see above); trying with the lists that are there"
}
known() {
	# Is there a version of this package to install?
	case $family in
	apt) apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]' ;;
	dnf) dnf -q list --available "$1" >/dev/null 2>&1 ;;
	*) return 1 ;;
	esac
}
installed() {
	case $family in
	apt) [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
	dnf) rpm -q --quiet "$1" ;;
	*) return 1 ;;
	esac
}
install() {
	is_root || cannot "packages are missing ($*) and only root can install them; run it with sudo"
	say "installing $*"
	case $family in
	apt)
		set -- install --no-install-recommends --no-upgrade "$@"
		apt "$@" || { # a list older than the archive names files that are gone: fetch it again and try once more
			fetch_lists
			apt "$@"
		}
		;;
	dnf) dnf -q -y install "$@" >&2 ;;
	*) return 1 ;;
	esac
}
missing() {
	for name in "$@"; do installed "$name" || printf '%s ' "$name"; done
}
need() {
	wanted=$(missing "$@")
	[ -z "$wanted" ] && return
	[ $family = none ] && cannot "neither apt-get nor dnf is here; install by hand: $*"
	if [ $family = apt ] && is_root; then
		for name in $wanted; do known "$name" || fetch_lists; done
	fi
	# shellcheck disable=SC2086 # package names have no spaces
	install $wanted || cannot "the packages $wanted could not be installed (see above)"
}
wish() {
	# wish WHY NAME...: optional; each one that cannot be had is a note.
	why=$1
	shift
	for name in $(missing "$@"); do
		if ! is_root || ! known "$name" || ! install "$name"; then note "no package $name: $why"; fi
	done
}

if [ $family = apt ] && is_root && ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
	fetch_lists # apt-get update was never run here
fi
case $family in
apt)
	need python3 python3-venv python3-bpfcc make util-linux
	wish "scenarios with memory, switches, forks or threads cannot run" stress-ng
	wish "'--runtime runc' is not possible" runc
	wish "'--runtime crun' is not possible" crun
	;;
dnf)
	need python3 python3-bcc make util-linux
	wish "scenarios with memory, switches, forks or threads cannot run" stress-ng
	wish "'--runtime runc' is not possible" runc
	wish "'--runtime crun' is not possible" crun
	;;
none) say "no apt-get and no dnf: taking what is installed" ;;
esac
if [ "$level" = test ]; then
	case $family in
	apt)
		need gcc libc6-dev iproute2 procps openssh-client python3-apt
		wish "benchmarks that use 'perf bench' are skipped" linux-perf
		wish "tests that list BPF programs with it are skipped" bpftool
		wish "a comparison with hwloc itself is skipped" hwloc-nox
		wish "tests with a real podman are skipped" podman
		;;
	dnf)
		need gcc glibc-devel iproute procps-ng openssh-clients
		wish "benchmarks that use 'perf bench' are skipped" perf
		wish "tests that list BPF programs with it are skipped" bpftool
		wish "a comparison with hwloc itself is skipped" hwloc
		wish "tests with a real podman are skipped" podman
		;;
	esac
fi

# Programs of packages that would start a service if they were installed: unpacked below .cache/NAME.
unpack() {
	# unpack NAME WHY PROGRAM DEB...
	name=$1 why=$2 program=$3
	shift 3
	have "$program" || [ -x "/usr/sbin/$program" ] || ls .cache/"$name"/usr/*bin/"$program" >/dev/null 2>&1 && return
	if [ $family != apt ]; then
		note "no $program: $why"
		return
	fi
	(
		mkdir -p ".cache/$name/debs"
		# apt drops to its own user for downloads and says so when that user cannot write here: harmless.
		cd ".cache/$name/debs"
		# What they need and is not installed differs by release: apt says which packages it would install.
		# What a browser would show (Prometheus' own pages: 220 MB) no test looks at.
		# shellcheck disable=SC2046 # package names have no spaces
		apt -o APT::Sandbox::User=root download $(apt-get -s --no-install-recommends install "$@" | awk '$1 == "Inst" && $2 !~ /^(libjs|fonts)-/ { print $2 }')
		for deb in ./*.deb; do dpkg-deb -x "$deb" ..; done
	) || note "no $program: $why"
}
if [ "$level" = test ]; then
	unpack sshd "tests with several nodes are skipped" sshd openssh-server
	unpack containerd "tests with a real container runtime are skipped" containerd containerd
	unpack prometheus "tests of alert rules and with a real Prometheus are skipped" promtool prometheus
fi

# ---------------------------------------------------------------- Python
[ -x $python ] || cannot "no $python"
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
if ! new_enough $python; then
	# Names of Ubuntu 22.04 and RHEL 9; written from their documentation, never run.
	case $family in
	apt) wish "there is no newer Python" python3.11 python3.11-venv ;;
	dnf) wish "there is no newer Python" python3.11 ;;
	esac
	for newer in /usr/bin/python3.1[1-9]; do if new_enough "$newer"; then python=$newer; fi; done
fi
new_enough $python || cannot "$($python --version 2>&1) at $python; pinproof needs Python $wheels_min or newer"
# Asked by the program itself: it finds the distribution's copy for any interpreter, and says what to install.
has_bcc() { PYTHONPATH=$PWD "$1" -c 'import sys; from toolkit.host.bcc_package import find_bcc; sys.exit(": ".join(find_bcc()[1:]) if find_bcc()[0] is None else 0)'; }
has_bcc $python || cannot "no bcc for $python (see above); pip's 'bcc' is another project"
if [ -x $venv/bin/python ] && ! { has_bcc $venv/bin/python && $venv/bin/python -c 'import sys; sys.exit(sys.base_prefix != "/usr")'; } 2>/dev/null; then
	say "$venv was not made from $python with its site packages: making it again"
	rm -rf $venv
fi
if [ ! -x $venv/bin/pip ]; then
	say "making $venv"
	$python -m venv --system-site-packages $venv || cannot "$python -m venv failed (see above)"
fi
say "installing pinproof and its Python dependencies"
# Without an environment of its own for the build: that would have all dependencies, which only a wheel's build needs.
install_python() {
	export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
	$venv/bin/pip install --quiet --retries 5 hatchling editables &&
		$venv/bin/pip install --quiet --retries 5 --no-build-isolation --editable "$1"
}
unavailable="pip could not install the Python dependencies (see above); is the package index reachable?"
case $level in
run)
	# grpcio has no ready-made package for every architecture, and only live kubelet's nodes need it.
	install_python '.[kubelet,live]' || {
		install_python '.[live]' || cannot "$unavailable"
		note "no grpcio (see above): the sockets of a kubelet's node cannot be asked"
	}
	;;
test) install_python '.[test,dev,kubelet,gate,fleet,live]' || cannot "$unavailable" ;;
esac
has_bcc $venv/bin/python || cannot "bcc is hidden by another module of that name in $venv"
echo "$key" >"$stamp"
say "ready"
