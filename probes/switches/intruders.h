/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intruders.h - tasks without a claim on watched (exclusive or reserved) CPUs, by CPU, task and cgroup: a task that is
 * moved is another from then on. A task that is a pod's by its v1 cpuset alone (its runtime does not join the v2
 * hierarchy, or something took it out there) is under that cpuset, with CPUSET_SPACE.
 *
 * Such a task is the pod's from when the cpuset holds it (settled.h): what it runs before is the doing of what moves it. A
 * claim's v1 cpuset says the same.
 *
 * What left a claim or a pod without ending, and what it has borne since, is under the cgroup where it is and `origin`.
 *
 * Maps:
 *   intruders  hash: key struct intruder_key, value struct intruder, MAX_INTRUDERS entries. Full: map_full is counted; user
 *              space drains it when it is half full.
 */
/* Full: map_full is counted. */
BPF_TABLE("hash", struct intruder_key, struct intruder, intruders, MAX_INTRUDERS);

/* The v1 cpuset of a pod or a claim that a task sits in whose identity is elsewhere: 0, or its id; and whose it is. */
static __always_inline u64 their_cpuset(void *task, u32 *ident)
{
        void *cgroup = legacy_cgroup(read_kernel(void *, task, OFF_TASK_STRUCT_CGROUPS), CPUSET_SUBSYS);
        struct claim_root root = root_of_cgroup(cgroup, CPUSET_SPACE);

        if (!root.ident)
                return 0;
        *ident = root.ident;
        return cpuset_id(cgroup);
}

static __always_inline struct intruder *new_intruder(struct intruder_key *key, void *task, u64 first_ns, u32 ident)
{
        struct intruder fresh = { .first_ns = first_ns, .tgid = bpf_get_current_pid_tgid() >> 32, .ident = ident };

        fresh.flags = read_kernel(u32, task, OFF_TASK_STRUCT_FLAGS);
        bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
        fresh.nr_cpus_allowed = read_kernel(u32, task, OFF_TASK_STRUCT_NR_CPUS_ALLOWED);
        intruders.update(key, &fresh);
        return intruders.lookup(key);
}

/* Whose was it before it left? Only where its note says that it did. */
static __always_inline void find_origin(struct intruder_key *key, u64 id)
{
        struct member *m = membership(id, id >> 32, (void *)bpf_get_current_task());

        if (m && !m->ident) {
                key->origin = m->origin;
                key->left = m->left;
        }
}

/* `note`: the task's. */
static __always_inline void watched(struct cpu_state *st, struct place_entry *e, struct span *s, u64 note)
{
        u64 id = bpf_get_current_pid_tgid(), theirs = 0;
        u32 ident = e->ident;
        int zero = 0;
        struct config *c = config.lookup(&zero);
        struct intruder *i = 0;
        void *task = (void *)bpf_get_current_task();

        if (!id || !c)
                return;                 /* the idle task */
        struct intruder_key key = { .cpu = bpf_get_smp_processor_id(), .tid = id, .life = s->life };

        key.epoch = st->window << 8 | (c->epoch & 255);
        if (note & NOTE_ORIGIN)
                find_origin(&key, id);
        if (c->cpuset_hierarchy && !e->ident && !key.origin)
                theirs = their_cpuset(task, &ident);
        if (theirs && !is_settled(st, theirs, note, s->from)) {
                theirs = 0;
                ident = e->ident;
        }
        key.cgroup = theirs ? theirs : e->cgroup;
        i = intruders.lookup(&key);
        if (!i)
                i = new_intruder(&key, task, s->from, ident);
        if (!i) {
                st->map_full++;
                return;
        }
        u64 earliest = s->start > st->opened_ns ? s->start : st->opened_ns;

        if (st->stay_ns > earliest)
                earliest = st->stay_ns;
        i->switches += count_once(st, s, COUNTED_INTRUDER);
        i->ns += s->now - s->from;
        i->last_ns = s->now;
        if (s->now - earliest > i->longest_ns) {
                i->longest_ns = s->now - earliest;
                i->longest_end_ns = s->now;
        }
}
