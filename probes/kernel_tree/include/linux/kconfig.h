/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bcc puts this file before every source: in a kernel tree it defines the configuration. It is also how bcc learns that
 * a folder is a kernel tree. Here: the words that bcc's own helpers.h and our programs use and the compiler lacks.
 */
#ifndef PINPROOF_KCONFIG_H
#define PINPROOF_KCONFIG_H
/* helpers.h refuses a kernel without it; whether the running one has it is asked before anything is compiled. */
#define CONFIG_BPF_SYSCALL 1

#define __always_inline inline __attribute__((always_inline))
#define __packed        __attribute__((packed))
#define __must_check
#define __user
#define __percpu
#define __iomem
#define __force
#endif
