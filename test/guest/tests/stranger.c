/* SPDX-License-Identifier: GPL-2.0-or-later */
/* stranger MANAGER SENDER WHAT: send a message to udevd's request socket as process SENDER (0: as this one). The
 * socket is taken out of the manager; the kernel lets root say that it is another process. WHAT is
 *   empty, short, header, long (more than a request may have), garbage, steps (10,000 of them), unterminated,
 *   request (a good one, for the module ifb), file, files (a good one with a file or as many as there can be) */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define FILES_MAX 253   /* SCM_MAX_FD */

typedef struct Header {
        uint64_t seqnum;
        uint32_t id;
        uint16_t n_steps;
        uint8_t class;
        uint8_t waits;
} Header;

/* Of all socket pairs the one that was made last; the end that takes no credentials is the workers'. */
static int steal_request_socket(pid_t pid) {
        int pidfd, found = -1;

        pidfd = syscall(SYS_pidfd_open, pid, 0);
        if (pidfd < 0)
                return -1;

        for (int i = 0; i < 256; i++) {
                int fd, domain = 0, type = 0, passes = 0;
                socklen_t size = sizeof(int);

                fd = syscall(SYS_pidfd_getfd, pidfd, i, 0);
                if (fd < 0)
                        continue;

                if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 || domain != AF_UNIX ||
                    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_DGRAM ||
                    getsockopt(fd, SOL_SOCKET, SO_PASSCRED, &passes, &size) < 0 || passes) {
                        close(fd);
                        continue;
                }

                if (found >= 0)
                        close(found);
                found = fd;
        }

        return found;
}

static size_t make_message(const char *what, char *buffer, size_t size) {
        Header header = { .seqnum = 1, .id = 1, .n_steps = 1 };
        size_t n = 0;

        if (strcmp(what, "empty") == 0)
                return 0;
        if (strcmp(what, "short") == 0)
                return 3;
        if (strcmp(what, "long") == 0) {
                memset(buffer, 'x', size);
                return size;
        }
        if (strcmp(what, "garbage") == 0) {
                for (n = 0; n < 1000; n++)
                        buffer[n] = n * 7 + 130;
                return n;
        }

        if (strcmp(what, "steps") == 0)
                header.n_steps = 10000;
        memcpy(buffer, &header, sizeof header);
        n = sizeof header;
        if (strcmp(what, "header") == 0)
                return n;

        memcpy(buffer + n, "/devices/x", 11);
        n += 11;
        for (unsigned i = 0; i < header.n_steps; i++) {
                memcpy(buffer + n, "aifb\0ifb", 9);
                n += 9;
        }
        if (strcmp(what, "unterminated") == 0)
                n--;
        return n;
}

/* n files behind the credentials. */
static void attach_files(struct msghdr *message, struct cmsghdr *last, unsigned n) {
        struct cmsghdr *header;

        message->msg_controllen += CMSG_SPACE(n * sizeof(int));
        header = CMSG_NXTHDR(message, last);
        *header = (struct cmsghdr) {
                .cmsg_level = SOL_SOCKET,
                .cmsg_type = SCM_RIGHTS,
                .cmsg_len = CMSG_LEN(n * sizeof(int)),
        };
        memset(CMSG_DATA(header), 0, n * sizeof(int)); /* standard input */
}

int main(int argc, char *argv[]) {
        static char buffer[100000];
        static union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(FILES_MAX * sizeof(int))];
        } control;
        struct ucred credentials = { .uid = getuid(), .gid = getgid() };
        struct iovec iov = { .iov_base = buffer };
        struct msghdr message = {
                .msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = &control,
                .msg_controllen = CMSG_SPACE(sizeof(struct ucred)),
        };
        int fd;

        if (argc != 4) {
                fprintf(stderr, "stranger: usage: stranger MANAGER SENDER WHAT\n");
                return 2;
        }

        fd = steal_request_socket(atoi(argv[1]));
        if (fd < 0) {
                perror("stranger: no request socket");
                return 1;
        }

        credentials.pid = atoi(argv[2]) ?: getpid();
        control.header = (struct cmsghdr) {
                .cmsg_level = SOL_SOCKET,
                .cmsg_type = SCM_CREDENTIALS,
                .cmsg_len = CMSG_LEN(sizeof credentials),
        };
        memcpy(CMSG_DATA(&control.header), &credentials, sizeof credentials);
        if (strcmp(argv[3], "file") == 0)
                attach_files(&message, &control.header, 1);
        if (strcmp(argv[3], "files") == 0)
                attach_files(&message, &control.header, FILES_MAX);
        iov.iov_len = make_message(argv[3], buffer, sizeof buffer);

        if (sendmsg(fd, &message, 0) < 0) {
                perror("stranger: cannot send");
                return 1;
        }

        return 0;
}
