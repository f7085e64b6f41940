/* The limit: what one core and the kernel's TCP path allow, with nothing on top.
 *
 * An epoll loop with one thread that gives one fixed answer. It knows where a request ends (an empty line, then a
 * known number of body bytes) and nothing else of HTTP: it reads no method, no target and no field, checks nothing,
 * has no deadline and no limit. All requests found in one read are answered by one send.
 *
 *     bare PORT|PATH BODY_FILE REQUEST_BODY_BYTES keep|close
 *
 * It listens at a port of 127.0.0.1, or at the path of a unix socket, which has a slash.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { READ_BYTES = 65536, EVENTS = 256, COPIES = 64, COPIED_BYTES = 262144, DESCRIPTORS = 65536 };

struct connection {
    int matched;    /* how many bytes of the empty line were seen last */
    long body_left; /* bytes of the request body still to come */
    size_t owed;    /* bytes of answers not yet sent */
    size_t at;      /* where in `answers` the next send starts */
    bool full;      /* the socket takes no more: wait for EPOLLOUT */
};

static struct connection connections[DESCRIPTORS];
static char input[READ_BYTES];
static char *answers; /* the same answer, `copies` times: what fits into a cache, so that many go out in one send */
static size_t answer_size, copies;
static long request_body;
static bool closing;
static int epoll;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void build_answers(const char *path)
{
    char head[256], *body = NULL;
    size_t body_size = 0, room = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path);
    do {
        body = realloc(body, room += READ_BYTES);
        body_size += fread(body + body_size, 1, READ_BYTES, file);
    } while (body_size == room);
    fclose(file);
    int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n%s\r\n",
                     body_size, closing ? "Connection: close\r\n" : "");
    answer_size = (size_t)n + body_size;
    copies = COPIED_BYTES / answer_size;
    copies = copies > COPIES ? COPIES : copies ? copies : 1;
    answers = malloc(answer_size * copies);
    for (size_t i = 0; i < copies; i++) {
        memcpy(answers + i * answer_size, head, (size_t)n);
        memcpy(answers + i * answer_size + n, body, body_size);
    }
    free(body);
}

static void watch(int operation, int fd, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &event) < 0)
        fail("epoll_ctl");
}

static int listen_on(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted sockets inherit it */
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4096) < 0)
        fail("listen");
    return fd;
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4096) < 0)
        fail("listen");
    return fd;
}

static void accept_all(int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= DESCRIPTORS) {
            close(fd);
            continue;
        }
        memset(&connections[fd], 0, sizeof connections[fd]);
        watch(EPOLL_CTL_ADD, fd, EPOLLIN);
    }
}

static size_t count_requests(struct connection *c, size_t size)
{
    size_t found = 0;
    for (size_t i = 0; i < size;) {
        if (c->body_left > 0) {
            size_t step = size - i < (size_t)c->body_left ? size - i : (size_t)c->body_left;
            i += step;
            c->body_left -= (long)step;
            found += c->body_left == 0;
            continue;
        }
        char byte = input[i++];
        c->matched = byte == "\r\n\r\n"[c->matched] ? c->matched + 1 : byte == '\r';
        if (c->matched == 4) {
            c->matched = 0;
            c->body_left = request_body;
            found += request_body == 0;
        }
    }
    return found;
}

static void flush(int fd, struct connection *c)
{
    while (c->owed) {
        size_t room = answer_size * copies - c->at;
        ssize_t sent = send(fd, answers + c->at, c->owed < room ? c->owed : room, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            if (!c->full)
                watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
            c->full = true;
            return;
        }
        if (sent < 0) {
            close(fd);
            return;
        }
        c->owed -= (size_t)sent;
        c->at = (c->at + (size_t)sent) % answer_size;
    }
    if (closing) {
        close(fd);
        return;
    }
    if (c->full)
        watch(EPOLL_CTL_MOD, fd, EPOLLIN);
    c->full = false;
}

static void serve(int fd)
{
    struct connection *c = &connections[fd];
    if (c->full) {
        flush(fd, c);
        return;
    }
    ssize_t size = read(fd, input, sizeof input);
    if (size > 0) {
        size_t found = count_requests(c, (size_t)size);
        c->owed += found * answer_size;
        if (found)
            flush(fd, c);
    } else if (size == 0 || errno != EAGAIN) {
        close(fd);
    }
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    if (argc != 5) {
        fprintf(stderr, "usage: bare PORT|PATH BODY_FILE REQUEST_BODY_BYTES keep|close\n");
        return 2;
    }
    request_body = atol(argv[3]);
    closing = !strcmp(argv[4], "close");
    build_answers(argv[2]);
    int listener = strchr(argv[1], '/') ? listen_at(argv[1]) : listen_on(atoi(argv[1]));
    epoll = epoll_create1(0);
    watch(EPOLL_CTL_ADD, listener, EPOLLIN);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++)
            events[i].data.fd == listener ? accept_all(listener) : serve(events[i].data.fd);
    }
}
