/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pieces.h - was the task under one claim during the whole interval? If not, or if that cannot be said yet, the interval
 * goes to user space as it is.
 */

/*
 * The kernel moves no task that exits (K35): a thread that its process's second joining finds on its way out stays in the
 * cpuset that the process has left.
 */
static __always_inline int overlooked(u32 ident)
{
        int zero = 0;
        struct config *c = config.lookup(&zero);
        void *task = (void *)bpf_get_current_task();

        return c && c->cpuset_hierarchy && ident && read_kernel(u32, task, OFF_TASK_STRUCT_FLAGS) & PF_EXITING &&
               !in_cpuset_of(read_kernel(void *, task, OFF_TASK_STRUCT_CGROUPS), ident);
}

/* Time is in no rows yet: without this record the run is incomplete. */
static __always_inline void send_piece(struct cpu_state *st, struct place_entry *e, struct span *s, struct member *m,
                                       u32 ident, u32 flags)
{
        struct piece *p = events.ringbuf_reserve(sizeof(*p));
        void *task = (void *)bpf_get_current_task();
        u64 id = bpf_get_current_pid_tgid();

        if (!p) {
                st->lost_events++;
                return;
        }
        p->kind = EVENT_PIECE;
        p->window = st->window;
        p->from_ns = s->from;
        p->now_ns = s->now;
        p->start_ns = s->start > st->stay_ns ? s->start : st->stay_ns;
        p->cgroup = e->cgroup;
        p->member_ns = m ? m->at_ns : 0;
        p->joined_ns = m ? m->joined_ns : 0;
        p->standstill_ns = s->still;
        p->tid = id;
        p->tgid = id >> 32;
        p->cpu = bpf_get_smp_processor_id();
        p->life = s->life;
        p->tgid_life = life_of(id >> 32);
        p->member_ident = ident;
        p->member_origin = m ? m->origin : 0;
        p->member_left = m ? m->left : 0;
        p->cgroup_ident = e->ident;
        p->task_flags = read_kernel(u32, task, OFF_TASK_STRUCT_FLAGS);
        p->nr_cpus_allowed = read_kernel(u32, task, OFF_TASK_STRUCT_NR_CPUS_ALLOWED);
        u32 tid = id, tgid = id >> 32;

        if (tid != tgid && !threads.lookup(&tid) && inherited(tgid, task))
                flags |= PIECE_UNANNOUNCED;
        if (s->ended)
                flags |= PIECE_ENDED;
        if (s->tick)
                flags |= PIECE_TICK;
        if (st->from_idle)
                flags |= PIECE_FROM_IDLE;
        if (st->counted_start_ns == s->start && (st->counted & COUNTED_OUTSIDE))
                flags |= PIECE_COUNTED;
        if (overlooked(e->ident))
                flags |= PIECE_OVERLOOKED;
        p->flags = flags;
        bpf_get_current_comm(p->comm, sizeof(p->comm));
        events.ringbuf_submit(p, 0);
        /* What follows of this interval is another stay. */
        st->stay_ns = s->now;
        st->counted_start_ns = s->start;
        st->counted = 0;
}

/*
 * A task that runs under the id of one that has exited: another one, which no fork announced, or a thread that took the id
 * of its dead leader in exec. What was known of the id is not its own, but for the moves of a process in exec.
 */
static __always_inline u64 word_of_living(u64 *note, u64 word)
{
        u64 id = bpf_get_current_pid_tgid();
        u32 tid = id, flags = read_kernel(u32, bpf_get_current_task(), OFF_TASK_STRUCT_FLAGS);

        if (flags & PF_EXITING)
                return word;            /* it is on its way out */
        if (word & NOTE_DEAD || id >> 32 != tid) {
                word = (word + (1ULL << NOTE_LIFE_SHIFT)) & ~NOTE_SEEN;
                threads.delete(&tid);
        }
        *note = word & (NOTE_LIFE | NOTE_SEEN);
        return *note;
}

/*
 * Called where there is news since the task was looked up, or where its note does not fit its cgroup (`key` is the one
 * that does). Returns whether the interval is dealt with; if not, the task was under the claim of its cgroup all the
 * time.
 */
static __always_inline int unsettled(struct cpu_state *st, struct place_entry *e, u64 *note, u64 key,
                                     struct span *s)
{
        u64 id = bpf_get_current_pid_tgid();
        struct member *m = membership(id, id >> 32, (void *)bpf_get_current_task());
        u32 ident = m ? m->ident : 0;
        int incomplete = m && m->incomplete && s->now - m->joined_ns <= JOINING_NS;
        int home = e->place == PLACE_INSIDE || e->place == PLACE_FREE;

        if (ident && ident != PODS_IDENT && ident != e->ident && !idents.lookup(&ident))
                m = 0, ident = 0;       /* its claim was removed */
        /* Record and cgroup agree, and have since before the interval began: all of it is the claim's. */
        if (ident == e->ident && (!m || m->at_ns <= s->from)) {
                if (!incomplete && (home || !note || !(*note & NOTE_LEFT) || !overlooked(ident))) {
                        if (note)
                                *note = m && m->origin ? *note | NOTE_ORIGIN : *note & ~NOTE_ORIGIN;
                        if (note && s->ended)   /* a tick may meet a thread whose switches nothing reports */
                                *note = (*note & (NOTE_LIFE | NOTE_LEFT | NOTE_SEEN | NOTE_ORIGIN | NOTE_BORN)) | key;
                        return 0;
                }
                /* Between its two joinings, but where it may be after both: nothing to cut. */
                if (home)
                        return 0;
        }
        /* It exits between its two joinings: the second will not move it, whatever its process's record says then. */
        if (note && incomplete && read_kernel(u32, bpf_get_current_task(), OFF_TASK_STRUCT_FLAGS) & PF_EXITING)
                *note |= NOTE_LEFT;
        send_piece(st, e, s, m, ident, (m ? PIECE_MEMBER : 0) | (incomplete ? PIECE_INCOMPLETE : 0));
        return 1;
}
