/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc-util.h"
#include "fd-util.h"
#include "io-util.h"
#include "stat-util.h"

#include "udev-module-file.h"

int module_file_open(const char *path, int flags, size_t size_max, struct stat *ret) {
        _cleanup_close_ int fd = -EBADF;
        int r;

        assert(path);
        assert(ret);

        fd = open(path, flags|O_NOFOLLOW|O_NONBLOCK|O_NOCTTY|O_CLOEXEC);
        if (fd < 0)
                return -errno;

        if (fstat(fd, ret) < 0)
                return -errno;

        r = stat_verify_regular(ret);
        if (r < 0)
                return r;

        if (ret->st_uid != geteuid() || (ret->st_mode & 0022) != 0)
                return -EPERM;
        if ((uint64_t) ret->st_size > size_max)
                return -EFBIG;

        return TAKE_FD(fd);
}

int module_file_read(int fd, size_t size, void **ret, size_t *ret_size) {
        _cleanup_free_ void *bytes = NULL;
        ssize_t n;

        assert(fd >= 0);
        assert(ret);
        assert(ret_size);

        bytes = malloc(size + 1);
        if (!bytes)
                return -ENOMEM;

        n = loop_read(fd, bytes, size, /* do_poll= */ false);
        if (n < 0)
                return n;

        *ret = TAKE_PTR(bytes);
        *ret_size = n;
        return 0;
}
