"""The messages of the CRI that make pods and containers: the project's own client only reads.

Source: https://github.com/kubernetes/cri-api/blob/master/pkg/apis/runtime/v1/api.proto (messages and numbers).
"""

from __future__ import annotations

from toolkit.sources.cri import TABLE

MESSAGES = {
    **TABLE,
    "NamespaceOption": {"network": (1, "int32"), "pid": (2, "int32"), "ipc": (3, "int32")},
    "LinuxSandboxSecurityContext": {"namespace_options": (1, "NamespaceOption")},
    "LinuxPodSandboxConfig": {"cgroup_parent": (1, "string"), "security_context": (2, "LinuxSandboxSecurityContext")},
    "PodSandboxConfig": {
        "metadata": (1, "PodSandboxMetadata"),
        "log_directory": (3, "string"),
        "labels": (6, "map"),
        "annotations": (7, "map"),
        "linux": (8, "LinuxPodSandboxConfig"),
    },
    "RunPodSandboxRequest": {"config": (1, "PodSandboxConfig")},
    "RunPodSandboxResponse": {"pod_sandbox_id": (1, "string")},
    "OfSandbox": {"pod_sandbox_id": (1, "string")},
    "Nothing": {},
    "ImageSpec": {"image": (1, "string"), "user_specified_image": (18, "string")},
    "PullImageRequest": {"image": (1, "ImageSpec")},
    "KeyValue": {"key": (1, "string"), "value": (2, "string")},
    "LinuxContainerSecurityContext": {"namespace_options": (3, "NamespaceOption")},
    "LinuxContainerConfig": {
        "resources": (1, "LinuxContainerResources"),
        "security_context": (2, "LinuxContainerSecurityContext"),
    },
    "ContainerConfig": {
        "metadata": (1, "ContainerMetadata"),
        "image": (2, "ImageSpec"),
        "command": (3, "string[]"),
        "args": (4, "string[]"),
        "envs": (6, "KeyValue[]"),
        "labels": (9, "map"),
        "annotations": (10, "map"),
        "log_path": (11, "string"),
        "linux": (15, "LinuxContainerConfig"),
    },
    "CreateContainerRequest": {
        "pod_sandbox_id": (1, "string"),
        "config": (2, "ContainerConfig"),
        "sandbox_config": (3, "PodSandboxConfig"),
    },
    "CreateContainerResponse": {"container_id": (1, "string")},
    "OfContainer": {"container_id": (1, "string")},
    "ExecSyncRequest": {"container_id": (1, "string"), "cmd": (2, "string[]"), "timeout": (3, "int64")},
    "UpdateContainerResourcesRequest": {"container_id": (1, "string"), "linux": (2, "LinuxContainerResources")},
}
