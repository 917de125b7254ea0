/*
 * offences.h - a task of a claim on a CPU outside its set: transition, violation, or not yet to be told.
 *
 * Only here are hashes touched for tasks of a claim. `offenders` holds who did it, `pending` what a task did that is not
 * known as a member (user space settles it when the kernel has told who was moved in, or has not).
 */
/* Full: map_full is counted, rows stay exact. */
BPF_TABLE("hash", struct offence_key, struct offence, offenders, MAX_OFFENDERS);
BPF_TABLE("hash", struct offence_key, struct offence, pending, MAX_OFFENDERS);

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

        if (st->counted & COUNTED_OUTSIDE)
                count = 0;              /* a member that is exiting has no record any more: its interval is counted */
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
