/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bcc asks for the version to choose between ways of reading memory. The programs need the helpers of 5.10 at least, and
 * what the running kernel really has its verifier says.
 */
#ifndef PINPROOF_VERSION_H
#define PINPROOF_VERSION_H
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE      KERNEL_VERSION(5, 10, 0)
#endif
