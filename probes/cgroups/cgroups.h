/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroups.h - the identity of claimed cgroups: records of their deletion and of their being made (again).
 *
 * A name may get a new cgroup at any time (a service restarts). Its id goes under the claim in the kernel, before the
 * new directory can be seen and anything can join, so that no task of it runs unjudged however late user space looks.
 * Each claimed name keeps its last few events itself: no ring can be full, and a reader that was stopped loses only the
 * dates of events beyond CGROUP_EVENTS, never their number nor the identity.
 */
#define CGROUP_PATH_BYTES 512           /* a hash key's greatest size; longer names are watched by user space alone */
#define CGROUP_EVENTS     16            /* power of two */

enum cgroup_event_kind { CGROUP_GONE = 1, CGROUP_MADE };

struct cgroup_event {
        u64 at_ns;
        u64 cgroup;                     /* id in the v2 hierarchy */
        u64 kind;
};

struct claimed_path {
        char path[CGROUP_PATH_BYTES];   /* below the root of the hierarchy, zeros behind */
};

struct claimed {
        u32 slot;
        u32 ident;
        u32 in_cpuset;                  /* it has a cpuset of this name in a v1 hierarchy */
        u32 in_limits;                  /* and cgroups of this name in those of other controllers (enum limits) */
        u64 events;                     /* so far; the last CGROUP_EVENTS of them are in `event`, by number */
        struct cgroup_event event[CGROUP_EVENTS];
};
