/*
 * ledger.bpf.c - the switch ledger: every interval that a task ran on a CPU, judged in the kernel when it ends.
 *
 * sched_switch fires on the old stack: helpers describe *prev*, whose interval [last switch, now] ends. Only helper
 * functions and BTF offsets are used, no kernel struct from headers. Everything hot is in per-CPU arrays; hashes are
 * touched only where something is wrong, or somebody is on a watched CPU.
 */
#include "claims.h"
#include "ledger.h"
#include "membership.h"

/* One entry per CPU. */
BPF_PERCPU_ARRAY(state, struct cpu_state, 1);
/* Two windows side by side: slot * 2 + window parity. A closed window's rows stand still until the next one closes. */
BPF_PERCPU_ARRAY(rows, struct row, MAX_CLAIMS * 2);
/* Full: map_full is counted, rows stay exact. */
BPF_TABLE("hash", struct offence_key, struct offence, offenders, MAX_OFFENDERS);
BPF_TABLE("hash", struct offence_key, struct offence, pending, MAX_OFFENDERS);
BPF_TABLE("hash", struct intruder_key, struct intruder, intruders, MAX_INTRUDERS);

#define SEEN_WORDS 65536                /* PID_MAX_LIMIT / 64 */
BPF_ARRAY(seen, u64, SEEN_WORDS);

/* The running interval [from, now], and what caused us to look at it. */
struct span {
        u64 from;
        u64 now;
        u64 start;
        int tick;
};

static __always_inline u64 once(struct cpu_state *st, struct span *s, u32 bit)
{
        if (st->counted_start_ns != s->start) {
                st->counted_start_ns = s->start;
                st->counted = 0;
        }
        if (st->counted & bit)
                return 0;
        st->counted |= bit;
        return 1;
}

static __always_inline void tell(struct cpu_state *st, struct row *row, struct place_entry *e, struct offence_key *key,
                                 struct offence *o, u32 kind)
{
        if (row->details >= DETAILS)
                return;
        row->details++;
        struct detail *d = events.ringbuf_reserve(sizeof(*d));

        if (!d) {
                st->lost_events++;
                return;
        }
        d->start_ns = o->first_ns;
        d->end_ns = o->last_ns;
        d->cgroup = e->cgroup;
        d->kind = kind;
        d->slot = key->slot;
        d->ident = e->ident;
        d->tid = key->tid;
        d->tgid = o->tgid;
        d->cpu = key->cpu;
        d->window = st->window;
        d->pad = 0;
        __builtin_memcpy(d->comm, o->comm, sizeof(d->comm));
        events.ringbuf_submit(d, 0);
}

static __always_inline void add(struct offence *o, u64 begin, u64 now, u64 longest_from, u64 count)
{
        u64 longest = now - longest_from;

        o->switches += count;
        o->ns += now - begin;
        o->last_ns = now;
        if (longest > o->longest_ns)
                o->longest_ns = longest;
}

static __always_inline void outside(struct cpu_state *st, struct row *row, struct place_entry *e, struct span *s)
{
        int index = e->mask;
        struct mask *m = masks.lookup(&index);
        u64 id = bpf_get_current_pid_tgid();
        u32 tid = id, tgid = id >> 32;
        u64 begin = s->from, earliest = s->start > st->opened_ns ? s->start : st->opened_ns;
        struct member *member = membership(tid, tgid);
        int known = member && member->ident == e->ident;
        u32 cpu = bpf_get_smp_processor_id();
        u64 bound = m ? m->since_ns : 0;

        if (m && has_cpu(m->grace, cpu) && m->grace_until_ns > bound)
                bound = m->grace_until_ns;
        if (known && member->at_ns > bound)
                bound = member->at_ns;
        if (bound > s->now)
                bound = s->now;
        if (bound > begin) {
                row->transition_ns += bound - begin;
                row->transition_switches += once(st, s, COUNTED_TRANSITION);
                begin = bound;
        }
        if (begin >= s->now)
                return;
        if (bound > earliest)
                earliest = bound;

        struct offence_key key = { .slot = e->slot, .tid = tid, .cpu = cpu };
        int zero = 0;
        struct config *c = config.lookup(&zero);

        if (c)
                key.epoch = st->window << 8 | (c->epoch & 255);
        struct offence fresh = { .first_ns = begin, .last_ns = s->now, .cgroup = e->cgroup, .tgid = tgid, .ident = e->ident };
        struct offence *o;

        if (known) {
                u64 count = once(st, s, COUNTED_OUTSIDE), longest = s->now - earliest;

                row->out_switches += count;
                row->out_ns += s->now - begin;
                row->out_samples += s->tick;
                if (longest > row->out_longest_ns)
                        row->out_longest_ns = longest;
                o = offenders.lookup(&key);
                if (!o) {
                        bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
                        tell(st, row, e, &key, &fresh, DETAIL_OUTSIDE);
                        offenders.update(&key, &fresh);
                        o = offenders.lookup(&key);
                }
                if (o)
                        add(o, begin, s->now, earliest, count);
                else
                        st->map_full++;
                return;
        }
        u64 count = once(st, s, COUNTED_PENDING);

        o = pending.lookup(&key);
        if (!o) {
                bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
                tell(st, row, e, &key, &fresh, DETAIL_PENDING);
                pending.update(&key, &fresh);
                o = pending.lookup(&key);
        }
        if (o)
                add(o, begin, s->now, earliest, count);
        else
                st->map_full++;
}

static __always_inline void watched(struct cpu_state *st, struct place_entry *e, struct span *s)
{
        u64 id = bpf_get_current_pid_tgid();
        int zero = 0;
        struct config *c = config.lookup(&zero);

        if (!id || !c)
                return;                 /* the idle task */
        struct intruder_key key = { .cpu = bpf_get_smp_processor_id(), .tid = id };

        key.epoch = st->window << 8 | (c->epoch & 255);

        struct intruder *i = intruders.lookup(&key);

        if (!i) {
                void *task = (void *)bpf_get_current_task();
                struct intruder fresh = { .first_ns = s->from, .cgroup = e->cgroup, .tgid = id >> 32 };

                fresh.flags = read_kernel(u32, task, OFF_TASK_STRUCT_FLAGS);
                fresh.nr_cpus_allowed = read_kernel(u32, task, OFF_TASK_STRUCT_NR_CPUS_ALLOWED);
                fresh.in_pods = c->pods_root && bpf_get_current_ancestor_cgroup_id(c->pods_level) == c->pods_root;
                bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
                intruders.update(&key, &fresh);
                i = intruders.lookup(&key);
                if (!i) {
                        st->map_full++;
                        return;
                }
        }
        u64 earliest = s->start > st->opened_ns ? s->start : st->opened_ns;

        i->switches += once(st, s, COUNTED_INTRUDER);
        i->ns += s->now - s->from;
        i->last_ns = s->now;
        if (s->now - earliest > i->longest_ns)
                i->longest_ns = s->now - earliest;
}

/* Count the running interval up to now. Written for registers: a task without a claim costs a compare and two stores. */
static __always_inline void charge(struct cpu_state *st, u64 now, int ended, int tick)
{
        struct place_entry *e = current_place(&st->places, st->generation);
        u32 place = e->place;

        if (place != PLACE_FREE) {
                struct span s = { .from = st->charged_ns, .now = now, .start = st->start_ns, .tick = tick };

                if (place == PLACE_WATCHED) {
                        watched(st, e, &s);
                } else {
                        int index = e->slot * 2 + (st->window & 1);
                        struct row *row = rows.lookup(&index);

                        if (row) {
                                row->switches += ended;
                                row->ns += now - s.from;
                                row->samples += tick;
                                if (place != PLACE_INSIDE)
                                        outside(st, row, e, &s);
                        }
                }
        }
        st->charged_ns = now;
}

/*
 * Some hosts hide threads from tracepoints, while ctxt in /proc/stat counts them. A bit for every tid that was ever seen
 * here lets user space name the others. Two CPUs may lose each other's bit: the next switch sets it again.
 */
static __always_inline void mark_seen(void)
{
        u32 tid = bpf_get_current_pid_tgid();
        int index = tid >> 6 & (SEEN_WORDS - 1);
        u64 *word = seen.lookup(&index), bit = 1ULL << (tid & 63);

        if (word && !(*word & bit))
                *word |= bit;
}

static __always_inline struct cpu_state *my_state(void)
{
        int zero = 0;

        return state.lookup(&zero);
}

int on_switch(struct bpf_raw_tracepoint_args *ctx)
{
        u64 now = bpf_ktime_get_ns();
        struct cpu_state *st = my_state();

        if (!st)
                return 0;
        st->judged++;
        charge(st, now, 1, 0);
        st->start_ns = now;
        mark_seen();
        return 0;
}

/* The CPU clock: a task that never switches is seen within one period. */
int on_tick(struct bpf_perf_event_data *ctx)
{
        struct cpu_state *st = my_state();

        if (!st || st->busy)
                return 0;
        st->ticks++;
        charge(st, bpf_ktime_get_ns(), 0, 1);
        return 0;
}

/* Never attached: user space runs it, on a CPU of its choice, where `current` is the task that it interrupts. */
int on_control(struct bpf_raw_tracepoint_args *ctx)
{
        u64 command = ctx->args[0], value = ctx->args[1];
        struct cpu_state *st = my_state();
        int zero = 0, slot = ctx->args[1];
        struct config *c = config.lookup(&zero);

        if (!st || !c)
                return -1;
        if (command == CONTROL_SPLIT || command == CONTROL_WINDOW) {
                *(volatile u32 *)&st->busy = 1;
                u64 now = bpf_ktime_get_ns();

                charge(st, now, 0, 0);
                if (command == CONTROL_WINDOW && st->window != (u32)value) {
                        st->closed_window = st->window;
                        st->closed_opened_ns = st->opened_ns;
                        st->closed_ns = now;
                        st->closed_judged = st->judged;
                        st->closed_ticks = st->ticks;
                        st->judged = st->ticks = 0;
                        st->opened_ns = now;
                        st->counted = 0;
                        st->window = value;
                }
                *(volatile u32 *)&st->busy = 0;
        } else if (command == CONTROL_LIVE) {
                u32 *buffer = live.lookup(&slot);

                if (!buffer)
                        return -1;
                *(volatile u32 *)buffer = ctx->args[2];
        } else if (command == CONTROL_FLUSH) {
                st->generation++;
        } else if (command == CONTROL_EPOCH) {
                *(volatile u32 *)&c->epoch = value;
        }
        return 0;
}

int on_attach(struct bpf_raw_tracepoint_args *ctx)
{
        struct cpu_state *st = my_state();

        if (st)
                handle_attach(st, (void *)ctx->args[0], (void *)ctx->args[2], ctx->args[3] & 1);
        return 0;
}

int on_fork(struct bpf_raw_tracepoint_args *ctx)
{
        struct cpu_state *st = my_state();

        if (st)
                handle_fork(st, (void *)ctx->args[1]);
        return 0;
}

int on_exit(struct bpf_raw_tracepoint_args *ctx)
{
        handle_exit((void *)ctx->args[0]);
        return 0;
}
