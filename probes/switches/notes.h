/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notes.h - what each task was under when it was looked up last, and how many tasks had its id before.
 *
 * Maps:
 *   notes  key tid / NOTES_PER_LINE, value struct note_line, NOTE_LINES entries (pid_max); cannot be full.
 */
/*
 * A note for every thread id that there may be: the number of the latest news (32 bits), the life (8), gone or not (8),
 * the tag (16), and whether a switch of it was ever reported: of a thread that some hosts hide from the tracepoint none
 * is. A thread id that is used twice is two tasks: `life` counts them, by their forks or, where no fork is announced (a
 * worker of io_uring, a vhost thread), by what runs under the id of a task that has exited. News are numbered over all
 * tasks, because a process that is moved has many threads and the kernel names one.
 */
#define PF_EXITING       0x00000004             /* of task_struct.flags */
#define NOTES_PER_LINE   128
#define NOTE_TAG         0xffffULL
#define NOTE_DEAD        (1ULL << 16)           /* it is exiting: its record is gone, its cgroup is what counts */
#define NOTE_LEFT        (1ULL << 17)           /* a task of this id has exited, a leader maybe before its threads */
#define NOTE_SEEN        (1ULL << 18)           /* it was seen switched out: what it does is judged, not hidden */
#define NOTE_ORIGIN      (1ULL << 19)           /* it left a claim without ending, or what bore it did (membership.h) */
#define NOTE_BORN        (1ULL << 20)           /* in the v1 cpuset of a claim or a pod, without an identity */
#define NOTE_LIFE_SHIFT  24
#define NOTE_LIFE        (0xffULL << NOTE_LIFE_SHIFT)
#define NOTE_KEY(tag, news)  ((u64)(tag) | (u64)(news) << 32)
#define KEY_OF_NOTE(word)    ((word) & ~(NOTE_LIFE | NOTE_SEEN | NOTE_ORIGIN | NOTE_BORN))

struct note_line {
        u64 of[NOTES_PER_LINE];
};

BPF_ARRAY(notes, struct note_line, NOTE_LINES);

static __always_inline u64 *note_of(u32 tid)
{
        int index = tid / NOTES_PER_LINE;
        struct note_line *line = notes.lookup(&index);

        return line ? &opaque(line)->of[tid % NOTES_PER_LINE] : 0;
}

static __always_inline u32 life_of_note(u64 word)
{
        return (word & NOTE_LIFE) >> NOTE_LIFE_SHIFT;
}

static __always_inline u32 life_of(u32 tid)
{
        u64 *note = note_of(tid);

        return note ? life_of_note(*note) : 0;
}
