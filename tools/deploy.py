"""What deploys pinproof: manifests for Kubernetes, plain (kustomize) and as a Helm chart, and units for systemd.

``python -m tools.deploy`` writes ``deploy/`` anew; a test compares what is there with what this module generates, and
the chart, filled with its own defaults, with the plain manifests. Here is the one place that says which privileges,
mounts and limits a watch gets (docs/privileges.md has how they were found).

Source: Kubernetes API reference (apps/v1 DaemonSet, batch/v1 Job); Helm documentation, "Chart Template Guide";
systemd.exec(5), systemd.timer(5), sysusers.d(5).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import toolkit

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "deploy"
PORT = 9469
CAPABILITIES = ("BPF", "PERFMON", "DAC_OVERRIDE", "SYS_PTRACE")
"""The last for pages of other users' processes and for the version of the node's kubelet."""
SYSCALLS: dict[str, str] = {
    "observing": "bpf perf_event_open fanotify_init fanotify_mark inotify_init1 inotify_add_watch inotify_rm_watch",
    "scheduling": "sched_getaffinity sched_setaffinity sched_getattr sched_setattr sched_getparam sched_setparam "
    "sched_getscheduler sched_setscheduler sched_get_priority_max sched_get_priority_min "
    "sched_rr_get_interval sched_yield getpriority setpriority getcpu get_mempolicy",
    "files": "access faccessat faccessat2 open openat openat2 close close_range read readv pread64 preadv "
    "preadv2 write writev pwrite64 pwritev pwritev2 lseek stat fstat lstat newfstatat statx statfs "
    "fstatfs readlink readlinkat getdents getdents64 getcwd chdir fchdir mkdir mkdirat rmdir unlink "
    "unlinkat rename renameat renameat2 link linkat symlink symlinkat chmod fchmod fchmodat fchmodat2 "
    "chown fchown fchownat lchown umask utime utimes utimensat truncate ftruncate fallocate fadvise64 "
    "fsync fdatasync sync_file_range flock fcntl dup dup2 dup3 pipe pipe2 ioctl sendfile "
    "copy_file_range splice tee memfd_create name_to_handle_at getxattr lgetxattr fgetxattr listxattr "
    "llistxattr flistxattr",
    "memory": "brk mmap munmap mprotect mremap madvise msync mincore mlock mlock2 munlock mlockall munlockall "
    "membarrier rseq pkey_alloc pkey_free pkey_mprotect",
    "processes": "clone clone3 fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill getpid "
    "getppid gettid getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid "
    "setregid setresuid setresgid setgroups setsid getsid setpgid getpgid getpgrp prctl arch_prctl "
    "capget capset set_tid_address set_robust_list get_robust_list futex futex_waitv getrlimit "
    "setrlimit prlimit64 getrusage sysinfo uname pidfd_open pidfd_send_signal",
    "signals": "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo "
    "rt_tgsigqueueinfo rt_sigsuspend sigaltstack signalfd signalfd4 restart_syscall pause",
    "time": "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getitimer setitimer "
    "alarm timer_create timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create "
    "timerfd_settime timerfd_gettime",
    "waiting": "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait "
    "epoll_pwait2 eventfd eventfd2",
    "sockets": "socket socketpair bind listen accept accept4 connect shutdown send sendto sendmsg sendmmsg recv "
    "recvfrom recvmsg recvmmsg getsockopt setsockopt getsockname getpeername",
    "random": "getrandom",
}
"""What a watch, a capture and a conformance run call, by families, so that another C library finds its own variants.

Found by strace (docs/privileges.md); whatever else there is (mounts, namespaces,
modules, keys, tracing of other processes, io_uring) is answered as if the kernel had no such call.
"""
_NO_SUCH_CALL = 38
"""ENOSYS, so that a library falls back to what it did before the call existed."""
_LABELS = {"app.kubernetes.io/name": "pinproof"}
_HEADER = "# Written by python -m tools.deploy.\n"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that the chart lets its user choose. :param default: what the plain manifests have."""

    name: str
    default: Any
    about: str


IMAGE = Setting("image", f"localhost/pinproof:{toolkit.__version__}-full", "what `make image` builds, in your registry")
PULL = Setting("imagePullPolicy", "IfNotPresent", "of Kubernetes")
ARGUMENTS = Setting(
    "watchArguments",
    ["--window", "30", "--keep", "240"],
    "further options of `pinproof watch`; 240 windows are two hours",
)
SELECTOR = Setting("nodeSelector", {"kubernetes.io/os": "linux"}, "which nodes are watched")
RESOURCES = Setting(
    "resources",
    {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
    "a watch is some 100 MB; what compiles the programs, once for each kernel, some 300 MB more for seconds",
)
SECCOMP = Setting(
    "seccompProfile",
    {"type": "Unconfined"},
    "{type: Localhost, localhostProfile: pinproof.json} where seccomp/pinproof.json is in /var/lib/kubelet/seccomp of "
    "each node; RuntimeDefault refuses bpf and perf_event_open on older runtimes",
)
SELINUX = Setting(
    "seLinuxOptions",
    {"type": "spc_t"},
    "of container-selinux, not confined; a node without SELinux ignores it, and another type needs a policy",
)
CONFORMANCE = Setting("conformance.enabled", False, "whether the chart has the Job, which loads every CPU of its node")
CONFORMANCE_NODE = Setting("conformance.nodeName", "", "the node that the Job judges; drained, without other work")
CONFORMANCE_ARGUMENTS = Setting("conformance.arguments", ["--on-live-node"], "further options: its own pod is at work")
SETTINGS = (
    *(IMAGE, PULL, ARGUMENTS, SELECTOR, RESOURCES, SECCOMP, SELINUX),
    *(CONFORMANCE, CONFORMANCE_NODE, CONFORMANCE_ARGUMENTS),
)

_MOUNTS: tuple[tuple[str, str, str, str, dict[str, Any]], ...] = (
    # name, place inside, place on the node, of what kind, how it is mounted
    ("cgroup", "/sys/fs/cgroup", "/sys/fs/cgroup", "Directory", {}),
    ("host", "/host", "/", "Directory", {"readOnly": True, "mountPropagation": "HostToContainer"}),
    ("runs", "/var/lib/pinproof", "/var/lib/pinproof", "DirectoryOrCreate", {}),
    ("programs", "/var/cache/pinproof", "/var/cache/pinproof", "DirectoryOrCreate", {}),
    ("journal", "/run/pinproof", "/run/pinproof", "DirectoryOrCreate", {}),
)


def _pod(name: str, words: list[Any], more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what a pod of ours is: the node's processes and cgroups, its files to be read, four capabilities."""
    return {
        "serviceAccountName": "pinproof",
        "automountServiceAccountToken": False,
        "hostPID": True,
        # Its name is then the node's, by which results are told apart; and the kubelet's read-only port is local.
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": name,
                "image": IMAGE,
                "imagePullPolicy": PULL,
                "args": words,
                "securityContext": {
                    "runAsUser": 0,
                    "privileged": False,
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"], "add": [*CAPABILITIES, *more]},
                    "seccompProfile": SECCOMP,
                    "seLinuxOptions": SELINUX,
                },
                "volumeMounts": [
                    {"name": "run", "mountPath": "/run"},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the pod alone
                    *({"name": one, "mountPath": inside} | how for one, inside, _, _, how in _MOUNTS),
                ],
            }
        ],
        "volumes": [
            {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            *({"name": one, "hostPath": {"path": path, "type": kind}} for one, _, path, kind, _ in _MOUNTS),
        ],
    }


def daemon_set() -> dict[str, Any]:
    """Return the watch on every node."""
    words = ["watch", "--kubelet", "--root", "/host", "--metrics-port", f"0.0.0.0:{PORT}", ARGUMENTS]
    pod = _pod("watch", words)
    (container,) = pod["containers"]
    probe = {"httpGet": {"path": "/metrics", "port": "metrics"}, "timeoutSeconds": 5}
    container |= {
        "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
        "resources": RESOURCES,
        # Compiling takes seconds, and a minute where the node's CPUs are all busy.
        "startupProbe": probe | {"periodSeconds": 5, "failureThreshold": 36},
        "livenessProbe": probe | {"periodSeconds": 30, "failureThreshold": 4},
    }
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(PORT)}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "pinproof-watch", "labels": _LABELS},
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {"labels": _LABELS, "annotations": annotations},
                # Long enough for the last window to be judged and saved.
                "spec": pod | {"nodeSelector": SELECTOR, "terminationGracePeriodSeconds": 60},
            },
        },
    }


def service_account() -> dict[str, Any]:
    """Return the account of the pods: no right is bound to it, for nothing asks the API server."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "pinproof", "labels": _LABELS},
        "automountServiceAccountToken": False,
    }


def namespace() -> dict[str, Any]:
    """Return the namespace, which must admit pods that see the host."""
    labels = _LABELS | {f"pod-security.kubernetes.io/{one}": "privileged" for one in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pinproof", "labels": labels}}


def job() -> dict[str, Any]:
    """Return a conformance run on one node. It puts back masks of other tasks, which needs CAP_SYS_NICE."""
    pod = _pod("conformance", ["conformance", CONFORMANCE_ARGUMENTS], ("SYS_NICE",))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "pinproof-conformance", "labels": _LABELS},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 86400,
            "template": {
                "metadata": {"labels": _LABELS},
                "spec": pod | {"nodeName": CONFORMANCE_NODE, "restartPolicy": "Never"},
            },
        },
    }


# ---------------------------------------------------------------- rendered


def plain(value: Any) -> Any:
    """Return a manifest with the default of each setting; a list that is a setting is spliced into its list."""
    if isinstance(value, Setting):
        return value.default
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [part for one in value for part in (plain(one) if _is_list(one) else [plain(one)])]
    return value


def _is_list(value: object) -> bool:
    return isinstance(value, Setting) and isinstance(value.default, list)


def template(value: Any) -> str:
    """Return a manifest as a Helm template: JSON, which is YAML, with ``.Values`` where a setting is."""
    if isinstance(value, Setting):
        return f"{{{{ .Values.{value.name} | toJson }}}}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {template(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        *fixed, last = value
        if _is_list(last):
            words = " ".join(json.dumps(one) for one in fixed)
            return f"{{{{ concat (list {words}) .Values.{last.name} | toJson }}}}"
        return "[" + ", ".join(map(template, value)) + "]"
    return json.dumps(value)


def _chart_file(manifest: dict[str, Any], condition: Setting | None = None) -> str:
    """Lay the outer levels of a template out as YAML, a line for each field."""
    lines = list(_laid_out(manifest, 0))
    if condition is not None:
        lines = [f"{{{{- if .Values.{condition.name} }}}}", *lines, "{{- end }}"]
    return _HEADER + "\n".join(lines) + "\n"


def _laid_out(manifest: dict[str, Any], depth: int) -> list[str]:
    lines = []
    for key, value in manifest.items():
        if isinstance(value, dict) and depth < 4:
            lines += [f"{'  ' * depth}{key}:", *_laid_out(value, depth + 1)]
        elif isinstance(value, list) and not _is_list(value[-1]) and depth < 5:
            lines += [f"{'  ' * depth}{key}:", *(f"{'  ' * depth}  - {template(one)}" for one in value)]
        else:
            lines.append(f"{'  ' * depth}{key}: {template(value)}")
    return lines


def _values() -> str:
    lines = [_HEADER.rstrip()]
    groups: dict[str, list[str]] = {}
    for one in SETTINGS:
        group, _, name = one.name.rpartition(".")
        said = [f"# {one.about[0].upper()}{one.about[1:]}.", f"{name}: {json.dumps(one.default)}"]
        groups.setdefault(group, []).extend(said)
    for group, said in groups.items():
        lines += [f"{group}:", *(f"  {line}" for line in said)] if group else said
    return "\n".join(lines) + "\n"


def _yaml(value: dict[str, Any]) -> str:
    return _HEADER + yaml.safe_dump(value, sort_keys=False, width=120)


def _kustomization(*resources: str, **more: Any) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return _yaml({**head, **more, "resources": list(resources)})


# ---------------------------------------------------------------- systemd

_UNIT_COMMON = f"""User=pinproof
AmbientCapabilities={" ".join(f"CAP_{one}" for one in CAPABILITIES)}
CapabilityBoundingSet={" ".join(f"CAP_{one}" for one in CAPABILITIES)}
NoNewPrivileges=yes
StateDirectory=pinproof
Environment=PINPROOF_RUNS=/var/lib/pinproof/runs
# Its journal is in /run/pinproof-UID and what it compiled in /var/cache/pinproof-UID; all else is only read.
ProtectSystem=strict
ReadWritePaths=/run /var/cache /sys/fs/cgroup
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LimitNOFILE=65536
LimitMEMLOCK=infinity
MemoryMax=512M
"""


def _unit(description: str, service: str, install: str = "") -> str:
    return (
        f"{_HEADER}[Unit]\nDescription={description}\nDocumentation=man:pinproof(1)\n"
        f"After=network.target kubelet.service\n\n[Service]\n{service}{_UNIT_COMMON}{install}"
    )


def systemd() -> dict[str, str]:
    """Return the units: a watch that goes on, and a check of a minute by a timer; and their user."""
    program = "/usr/bin/pinproof"
    return {
        "pinproof-watch.service": _unit(
            "Judge whether CPU and memory isolation holds on this node, all the time",
            f"ExecStart={program} watch --kubelet --metrics-port {PORT} --keep 240\n"
            "# Undecided (3) and failed (1) windows are results, not failures of the service.\n"
            "SuccessExitStatus=1 3\nRestart=on-failure\nRestartSec=30\nKillSignal=SIGTERM\nTimeoutStopSec=60\n",
            "\n[Install]\nWantedBy=multi-user.target\n",
        ),
        "pinproof-check.service": _unit(
            "Judge for a minute whether CPU and memory isolation holds on this node",
            f"Type=oneshot\nExecStart={program} watch --kubelet --duration 60\n",
        ),
        "pinproof-check.timer": f"{_HEADER}[Unit]\nDescription=Judge isolation on this node every hour\n\n"
        "[Timer]\nOnCalendar=hourly\nRandomizedDelaySec=30m\nPersistent=yes\n\n[Install]\nWantedBy=timers.target\n",
        "pinproof.sysusers": f'{_HEADER}u pinproof - "CPU and memory isolation" /var/lib/pinproof\n',
    }


def seccomp() -> dict[str, Any]:
    """Return the profile, as container runtimes and podman read it.

    Source: runtime-spec, config-linux.md, "Seccomp"; containers-common, seccomp.json.
    """
    names = sorted({name for family in SYSCALLS.values() for name in family.split()})
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": _NO_SUCH_CALL,
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
        "syscalls": [{"names": names, "action": "SCMP_ACT_ALLOW"}],
    }


def generate() -> dict[str, str]:
    """Return every file of ``deploy/`` by its path there."""
    chart = {"apiVersion": "v2", "name": "pinproof", "version": toolkit.__version__, "appVersion": toolkit.__version__}
    chart |= {"description": "Proof that CPU and memory isolation holds on every node", "type": "application"}
    return {
        "kustomize/kustomization.yaml": _kustomization(
            "namespace.yaml", "serviceaccount.yaml", "daemonset.yaml", namespace="pinproof"
        ),
        "kustomize/namespace.yaml": _yaml(namespace()),
        "kustomize/serviceaccount.yaml": _yaml(plain(service_account())),
        "kustomize/daemonset.yaml": _yaml(plain(daemon_set())),
        "kustomize/conformance/kustomization.yaml": _kustomization("job.yaml", namespace="pinproof"),
        "kustomize/conformance/job.yaml": _yaml(plain(job())),
        "helm/pinproof/Chart.yaml": _yaml(chart),
        "helm/pinproof/values.yaml": _values(),
        "helm/pinproof/templates/serviceaccount.yaml": _chart_file(service_account()),
        "helm/pinproof/templates/daemonset.yaml": _chart_file(daemon_set()),
        "helm/pinproof/templates/job.yaml": _chart_file(job(), CONFORMANCE),
        "seccomp/pinproof.json": json.dumps(seccomp(), indent=2) + "\n",
        **{f"systemd/{name}": text for name, text in systemd().items()},
    }


def main() -> None:
    """Write ``deploy/`` anew."""
    for name, text in generate().items():
        place = ROOT / FOLDER / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
