/* SPDX-License-Identifier: Apache-2.0 */
/* bcc's helpers.h includes this file; nothing of the kernel's list of helpers and map types (bcc has its own) is used by it or by our programs. */
