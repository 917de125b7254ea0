/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroups.bpf.c - a claimed cgroup, or that of all pods, is deleted, or made (again) under its name.
 *
 * Both tracepoints fire under the kernel's cgroup lock: one event at a time, and a new cgroup is reported before its
 * directory is activated, hence before any task can be in it. Ids are never used twice and answers for a new id cannot
 * have been cached, so that nothing needs to be flushed. The old id stays a root until user space takes it out: dying
 * tasks of the old cgroup go on being the claim's. What hears the ledger's ring is woken by a record that is thrown away.
 *
 * Maps:
 *   claimed_paths  hash: key struct claimed_path, value struct claimed, MAX_CLAIMS + 1 entries (each claim's, and that of all
 *                  pods); written by user space alone, which gets the error; events beyond CGROUP_EVENTS of a name are
 *                  counted, not dated.
 *   path_buffer    per CPU: key 0, value struct claimed_path, 1 entry; room for a path under the kernel's lock; cannot be full.
 *   path_events    key 0, value count of all events (u64), 1 entry; cannot be full.
 *   cgroups_made   key 0, value how many cgroups of the machine were made (u64), in any hierarchy, 1 entry; cannot be full.
 */
#include "cgroups/cgroups.h"

BPF_TABLE("hash", struct claimed_path, struct claimed, claimed_paths, MAX_CLAIMS + 1);
BPF_PERCPU_ARRAY(path_buffer, struct claimed_path, 1);
BPF_ARRAY(path_events, u64, 1);         /* of all claims together: one look says whether there is any news */
BPF_ARRAY(cgroups_made, u64, 1);        /* what knows all cgroups need not look for new ones */

static __always_inline int note_cgroup(void *cgroup, void *path, enum cgroup_event_kind kind)
{
        void *root = read_kernel(void *, cgroup, OFF_CGROUP_ROOT);
        struct cpu_state *st = my_state();
        int zero = 0;
        struct claimed_path *key = path_buffer.lookup(&zero);
        u64 *news = path_events.lookup(&zero);
        struct config *config_now = config.lookup(&zero);
        u32 hierarchy = read_kernel(u32, root, OFF_CGROUP_ROOT_HIERARCHY_ID);

        if (!st || !key || !news || !config_now)
                return 0;
        key = opaque(key);
        u64 space = hierarchy ? space_of(config_now, hierarchy) : 0;

        if (hierarchy && (!space || kind != CGROUP_MADE))
                return 0;               /* identity is that of v2; of v1 those matter of which a claim promises something */
        __builtin_memset(key, 0, sizeof(*key));
        bpf_probe_read_kernel_str(key->path, sizeof(key->path), path);

        struct claimed *c = claimed_paths.lookup(key);

        if (!c)
                return 0;
        c = opaque(c);
        u64 id = read_kernel(u64, read_kernel(void *, cgroup, OFF_CGROUP_KN), OFF_KERNFS_NODE_ID);

        if (kind == CGROUP_MADE) {
                struct claim_root fresh = { .slot = c->slot, .ident = c->ident, .in_cpuset = c->in_cpuset,
                                            .in_limits = c->in_limits };
                u64 number = id | space;

                roots.update(&number, &fresh);
                if (!roots.lookup(&number))
                        st->map_full++;
        }
        if (hierarchy)
                return 0;
        struct cgroup_event *e = &c->event[c->events & (CGROUP_EVENTS - 1)];

        e->at_ns = bpf_ktime_get_ns();
        e->cgroup = id;
        e->kind = kind;
        __sync_fetch_and_add(&c->events, 1);
        __sync_fetch_and_add(news, 1);

        void *nothing = events.ringbuf_reserve(8);

        if (nothing)                    /* full: what hears is awake */
                events.ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
        return 0;
}

/* raw tracepoint cgroup_mkdir(cgrp, path) */
int on_cgroup_mkdir(struct bpf_raw_tracepoint_args *ctx)
{
        int zero = 0;
        u64 *made = cgroups_made.lookup(&zero);

        if (made)
                __sync_fetch_and_add(made, 1);
        return note_cgroup((void *)ctx->args[0], (void *)ctx->args[1], CGROUP_MADE);
}

/* raw tracepoint cgroup_rmdir(cgrp, path): it has no task and no child any more */
int on_cgroup_rmdir(struct bpf_raw_tracepoint_args *ctx)
{
        return note_cgroup((void *)ctx->args[0], (void *)ctx->args[1], CGROUP_GONE);
}
