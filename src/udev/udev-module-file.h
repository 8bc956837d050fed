/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* Reading back the files that udevd has written in /run/udev, whatever may be there in their place. */

#include <stddef.h>
#include <sys/stat.h>

/* Open a regular file of ours that nobody else may write to; neither follow a link, nor wait. flags: O_RDONLY or
 * O_RDWR, and more. size_max: bytes. The caller closes it. Returns a file descriptor, or negative errno: -EPERM if
 * it is somebody else's, -EFBIG if it is larger, others for what is no regular file. */
int module_file_open(const char *path, int flags, size_t size_max, struct stat *ret);

/* All of it, from where it stands, but no more than size. The caller frees *ret, which is never NULL on success. */
int module_file_read(int fd, size_t size, void **ret, size_t *ret_size);
