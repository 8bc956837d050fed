/* SPDX-License-Identifier: GPL-2.0-or-later */
/* uevmon FILE: record all uevents, of the kernel and of udevd, until SIGTERM. The datagrams are kept in memory and
 * written to FILE at the end, so that the recorder takes as little CPU as it can from what it watches.
 *
 * It prints the pid of the recording process and returns once that listens. A line of FILE: seconds since boot,
 * "kernel" or "udev", ACTION, DEVPATH, SUBSYSTEM, DEVTYPE, DEVNAME, SEQNUM, MODALIAS; separated by tabs, "-" if
 * absent, control characters as "_". */

#include <errno.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "background.h"

#define GROUP_UDEV 2U
#define GROUPS_ALL 3U           /* the kernel's is 1 */
#define DATAGRAM_MAX 16384U
#define MEMORY (64U << 20)

typedef struct Record {
        struct timespec time;
        unsigned group;
        unsigned size;
        char data[];
} Record;

static size_t record_space(unsigned size) {
        return (sizeof(Record) + size + 1 + 7) & ~(size_t) 7;
}

/* What udevd sends has a header that says where the properties start; the kernel's starts with a line "add@/…". */
static unsigned properties_offset(const Record *r) {
        uint32_t offset;

        if (r->group == GROUP_UDEV && r->size >= 24 && memcmp(r->data, "libudev", 8) == 0) {
                memcpy(&offset, r->data + 16, sizeof offset);
                return offset < r->size ? offset : r->size;
        }

        return strnlen(r->data, r->size) + 1;
}

static void print_property(FILE *f, const Record *r, const char *key) {
        size_t n = strlen(key);

        for (unsigned i = properties_offset(r); i < r->size; i += strlen(r->data + i) + 1) {
                const char *p = r->data + i;

                if (strncmp(p, key, n) != 0 || p[n] != '=' || p[n + 1] == 0)
                        continue;
                fputc('\t', f);
                for (p += n + 1; *p; p++)
                        fputc((unsigned char) *p < ' ' ? '_' : *p, f);
                return;
        }

        fputs("\t-", f);
}

static int records_write(const char *memory, size_t used, const char *path) {
        static const char *const keys[] = {
                "ACTION", "DEVPATH", "SUBSYSTEM", "DEVTYPE", "DEVNAME", "SEQNUM", "MODALIAS",
        };
        FILE *f;

        f = fopen(path, "we");
        if (!f) {
                perror("uevmon: cannot write the record");
                return 1;
        }

        for (size_t at = 0; at < used;) {
                const Record *r = (const Record*) (memory + at);

                fprintf(f, "%lld.%06ld\t%s", (long long) r->time.tv_sec, r->time.tv_nsec / 1000,
                        r->group == GROUP_UDEV ? "udev" : "kernel");
                for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
                        print_property(f, r, keys[i]);
                fputc('\n', f);
                at += record_space(r->size);
        }

        return fclose(f) == 0 ? 0 : 1;
}

int main(int argc, char *argv[]) {
        struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = GROUPS_ALL };
        int fd, buffer = MEMORY;
        size_t used = 0;
        char *memory;
        int forked;

        if (argc != 2) {
                fprintf(stderr, "uevmon: usage: uevmon FILE\n");
                return 2;
        }

        memory = mmap(NULL, MEMORY, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
                perror("uevmon: no memory");
                return 1;
        }

        fd = socket(AF_NETLINK, SOCK_DGRAM|SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
        if (fd < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) < 0 ||
            bind(fd, (struct sockaddr*) &address, sizeof address) < 0) {
                perror("uevmon: cannot listen for uevents");
                return 1;
        }

        forked = go_to_background("uevmon");
        if (forked != 0)
                return forked < 0;

        while (!stopped) {
                Record *r = (Record*) (memory + used);
                struct iovec iov = { r->data, DATAGRAM_MAX };
                struct sockaddr_nl sender = {};
                struct msghdr message = {
                        .msg_name = &sender,
                        .msg_namelen = sizeof sender,
                        .msg_iov = &iov,
                        .msg_iovlen = 1,
                };
                ssize_t n;

                if (MEMORY - used < record_space(DATAGRAM_MAX)) {
                        fprintf(stderr, "uevmon: the record is full, what follows is not in it\n");
                        break;
                }

                n = recvmsg(fd, &message, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0) {
                        perror("uevmon: uevents are missing in the record");
                        if (errno == ENOBUFS)
                                continue;
                        break;
                }

                clock_gettime(CLOCK_MONOTONIC, &r->time);
                r->group = sender.nl_groups;
                r->size = n;
                r->data[n] = 0;
                used += record_space(r->size);
        }

        return records_write(memory, used, argv[1]);
}
