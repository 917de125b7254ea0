/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offences.h - a task of a claim on a CPU outside its set: transition or violation.
 *
 * Comes after pieces.h has made sure that the task was a member all the time. Only here are hashes touched for tasks of
 * a claim whose membership stands still; `offenders` holds which task did it.
 *
 * Maps:
 *   offenders  hash: key struct offence_key, value struct offence, MAX_OFFENDERS entries. Full: map_full is counted, rows stay
 *              exact; user space drains it when it is half full.
 */
/* By CPU and task. Full: map_full is counted, rows stay exact. */
BPF_TABLE("hash", struct offence_key, struct offence, offenders, MAX_OFFENDERS);

static __always_inline u64 count_once(struct cpu_state *st, struct span *s, u32 bit)
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

static __always_inline void send_detail(struct cpu_state *st, struct row *row, struct offence_key *key,
                                        struct offence *o)
{
        if (row->details >= DETAILS)
                return;
        row->details++;
        struct detail *d = events.ringbuf_reserve(sizeof(*d));

        if (!d) {
                st->lost_events++;
                return;
        }
        d->kind = EVENT_OUTSIDE;
        d->window = st->window;
        d->start_ns = o->first_ns;
        d->end_ns = o->last_ns;
        d->ident = key->ident;
        d->tid = key->tid;
        d->tgid = o->tgid;
        d->cpu = key->cpu;
        __builtin_memcpy(d->comm, o->comm, sizeof(d->comm));
        events.ringbuf_submit(d, 0);
}

/* Until when being outside counts as transition: the set is new, or this CPU was taken from it a moment ago. */
static __always_inline u64 transition_end(struct mask *m, u32 cpu, u64 now)
{
        u64 end = 0;

        if (m) {
                m = opaque(m);
                end = m->since_ns;
                if (has_cpu(m->grace, cpu) && m->grace_until_ns > end)
                        end = m->grace_until_ns;
        }
        return end > now ? now : end;   /* the change is still under way (~0) */
}

/* The entry of this task here, made and reported where it is the first time; NULL where the map is full. */
static __always_inline struct offence *offence_of(struct cpu_state *st, struct row *row, struct offence_key *key,
                                                  u64 begin, u64 now, u32 tgid)
{
        struct offence *o = offenders.lookup(key);

        if (o)
                return o;
        struct offence fresh = { .first_ns = begin, .last_ns = now, .tgid = tgid };

        bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
        /* Before it is kept: the first ones are reported also where the map is full. */
        send_detail(st, row, key, &fresh);
        offenders.update(key, &fresh);
        return offenders.lookup(key);
}

static __always_inline void outside(struct cpu_state *st, struct row *row, struct place_entry *e, struct span *s)
{
        int index = e->mask;
        struct mask *m = masks.lookup(&index);
        u64 id = bpf_get_current_pid_tgid();
        u32 tid = id, tgid = id >> 32;
        u64 begin = s->from, earliest = s->start > st->opened_ns ? s->start : st->opened_ns;
        u32 cpu = bpf_get_smp_processor_id();
        u64 bound = transition_end(m, cpu, s->now);

        if (bound > begin) {
                row->transition_ns += bound - begin;
                row->transition_switches += count_once(st, s, COUNTED_TRANSITION);
                begin = bound;
        }
        if (begin >= s->now)
                return;
        /* The longest stay goes back to when the task came here, over splits, but not into what is judged otherwise. */
        if (bound > earliest)
                earliest = bound;
        if (st->stay_ns > earliest)
                earliest = st->stay_ns;

        struct offence_key key = { .ident = e->ident, .tid = tid, .cpu = cpu, .life = s->life };
        int zero = 0;
        struct config *c = config.lookup(&zero);

        if (c)
                key.epoch = st->window << 8 | (c->epoch & 255);

        u64 count = count_once(st, s, COUNTED_OUTSIDE), longest = s->now - earliest;

        row->out_switches += count;
        row->out_ns += s->now - begin;
        row->out_samples += s->tick;
        if (longest > row->out_longest_ns)
                row->out_longest_ns = longest;

        struct offence *o = offence_of(st, row, &key, begin, s->now, tgid);

        if (!o) {
                st->map_full++;
                return;
        }
        o->switches += count;
        o->ns += s->now - begin;
        o->last_ns = s->now;
        if (longest > o->longest_ns) {
                o->longest_ns = longest;
                o->longest_end_ns = s->now;
        }
}
