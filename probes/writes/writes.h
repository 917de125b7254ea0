/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writes.h - what wrote what to a control file of a watched cgroup: a record for each write.
 *
 * A cgroup has a directory in each hierarchy, and kernfs numbers them in each anew: a directory is known by both numbers.
 * User space says which directories are watched, under a number of its own that is never used twice, and which names
 * of files are of interest; all other writes (cgroup.procs, most of all) end at the first lookup.
 *
 * Maps:
 *   write_files   hash: key struct file_name, value 1 (u32), 32 entries; written by user space alone, which gets the error.
 *   write_dirs    hash: key struct watched_dir, value user space's number of the cgroup (u32), MAX_WRITE_DIRS entries; written
 *                 by user space alone: a directory for which there is no room (full) is a blind spot.
 *   write_state   per CPU: key 0, value struct write_state, 1 entry; cannot be full.
 *   writes        ring of 32 pages: struct control_write. Full: `dropped` is counted, as beyond MAX_WRITES.
 */
#define WRITE_NAME_BYTES  32
#define WRITE_VALUE_BYTES 64            /* power of two; the last one is always 0 */

struct file_name {
        char name[WRITE_NAME_BYTES];
};

struct watched_dir {
        u64 id;                         /* of its kernfs node */
        u64 hierarchy;                  /* 0: v2 */
};

struct write_state {
        u32 window;
        u32 sent;
        u64 dropped;                    /* since the programs were loaded */
};

struct control_write {
        u32 window;
        u32 cgroup;                     /* user space's number */
        u64 at_ns;                      /* the kernel has done it, or refused */
        s64 result;                     /* bytes taken, or a negative errno */
        u32 tid;
        u32 tgid;
        u32 bytes;                      /* asked for */
        u32 hierarchy;
        char comm[16];
        char file[WRITE_NAME_BYTES];
        char value[WRITE_VALUE_BYTES];
};

BPF_TABLE("hash", struct file_name, u32, write_files, 32);
BPF_TABLE("hash", struct watched_dir, u32, write_dirs, MAX_WRITE_DIRS);
BPF_PERCPU_ARRAY(write_state, struct write_state, 1);
BPF_RINGBUF_OUTPUT(writes, 32);
