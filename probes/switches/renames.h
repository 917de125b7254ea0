/* SPDX-License-Identifier: Apache-2.0 */
/*
 * renames.h - what a task was called last. Offences and intruders keep the name of their first interval, because asking
 * for it each time would cost half as much again; an exec later the task has another (`runc:[2:INIT]` is no claim's
 * workload). User space takes the later one where the task ran on.
 *
 * Maps:
 *   renames  LRU hash: key struct rename_key, value struct rename, MAX_RENAMES entries. Full: the one that was renamed longest
 *            ago keeps its first name.
 */
struct rename_key {
        u32 tid;
        u32 life;
};

struct rename {
        u64 at_ns;
        char comm[16];
};

/* Full: the one that was renamed longest ago keeps its first name. */
BPF_TABLE("lru_hash", struct rename_key, struct rename, renames, MAX_RENAMES);

/* raw tracepoint task_rename(task, comm) */
static __always_inline void handle_rename(void *task, void *comm)
{
        struct rename_key key = { .tid = read_kernel(u32, task, OFF_TASK_STRUCT_PID) };
        struct rename value = { .at_ns = bpf_ktime_get_ns() };

        key.life = life_of(key.tid);
        bpf_probe_read_kernel_str(value.comm, sizeof(value.comm), comm);
        renames.update(&key, &value);
}
