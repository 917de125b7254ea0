/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intruders.h - tasks without a claim on watched (exclusive or reserved) CPUs, by CPU, task and cgroup: a task that is
 * moved is somebody else from then on.
 *
 * Maps:
 *   intruders  hash: key struct intruder_key, value struct intruder, MAX_INTRUDERS entries. Full: map_full is counted; user
 *              space drains it when it is half full.
 */
/* Full: map_full is counted. */
BPF_TABLE("hash", struct intruder_key, struct intruder, intruders, MAX_INTRUDERS);

static __always_inline void watched(struct cpu_state *st, struct place_entry *e, struct span *s)
{
        u64 id = bpf_get_current_pid_tgid();
        int zero = 0;
        struct config *c = config.lookup(&zero);

        if (!id || !c)
                return;                 /* the idle task */
        struct intruder_key key = { .cpu = bpf_get_smp_processor_id(), .tid = id, .life = s->life, .cgroup = e->cgroup };

        key.epoch = st->window << 8 | (c->epoch & 255);

        struct intruder *i = intruders.lookup(&key);

        if (!i) {
                void *task = (void *)bpf_get_current_task();
                struct intruder fresh = { .first_ns = s->from, .tgid = id >> 32, .in_pods = e->ident == PODS_IDENT };

                fresh.flags = read_kernel(u32, task, OFF_TASK_STRUCT_FLAGS);
                bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
                fresh.nr_cpus_allowed = read_kernel(u32, task, OFF_TASK_STRUCT_NR_CPUS_ALLOWED);
                intruders.update(&key, &fresh);
                i = intruders.lookup(&key);
                if (!i) {
                        st->map_full++;
                        return;
                }
        }
        u64 earliest = s->start > st->opened_ns ? s->start : st->opened_ns;

        if (st->stay_ns > earliest)
                earliest = st->stay_ns;
        i->switches += count_once(st, s, COUNTED_INTRUDER);
        i->ns += s->now - s->from;
        i->last_ns = s->now;
        if (s->now - earliest > i->longest_ns)
                i->longest_ns = s->now - earliest;
}
