/* A load that counts for each client, which wrk does not: how many answers each got, and how long each request took.
 *
 * Every client asks again as soon as it has its answer, on a kept connection, or on a new one where the answer announced
 * its close. Some clients may send another kind of request; only of the first kind times are kept. When the time is over
 * no client asks any more, but all wait for the answers that are due, so the time of a request that starves counts.
 * An answer must be 200 with the body that stdin gives; anything else ends the load. The body ends by Content-Length, by
 * its last chunk (RFC 9112 7.1), or, where the answer has neither, with the connection.
 *
 *     tally PORT|PATH SECONDS CLIENTS REQUEST|@FILE OTHER_CLIENTS OTHER_REQUEST <BODY
 *
 * A file has several requests, each of them ended by a zero byte; the clients send them in turn, all the same answer due.
 * The server listens at a port of 127.0.0.1, or at the path of a unix socket, which has a slash.
 * It prints one line of JSON: answers of each client within the time, and percentiles (nearest rank) in milliseconds.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_BYTES = 1 << 17, PATIENCE_MS = 5000 };

struct client {
    int fd; /* -1: not connected */
    const char *request;
    bool is_timed, is_waiting;
    double asked;
    size_t have; /* bytes of the answer so far */
    long answers;
    char answer[ANSWER_BYTES];
};

static struct client *clients;
static int count, epoll;
static union {
    struct sockaddr any;
    struct sockaddr_in tcp;
    struct sockaddr_un local;
} server;
static socklen_t server_size;
static char body[ANSWER_BYTES], decoded[ANSWER_BYTES];
static size_t body_size;
static char *in_turn; /* requests of a file, each ended by a zero byte; NULL: there is none */
static size_t in_turn_size, next_in_turn;
static double *times; /* milliseconds */
static size_t timed, room;

static void fail(const char *what, long number)
{
    fprintf(stderr, "%s (%ld)\n", what, number);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void set_server(const char *where)
{
    if (!strchr(where, '/')) {
        server.tcp.sin_family = AF_INET;
        server.tcp.sin_port = htons((unsigned short)atoi(where));
        server.tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        server_size = sizeof server.tcp;
        return;
    }
    if (strlen(where) >= sizeof server.local.sun_path)
        fail("the path of the socket is too long; bytes", (long)strlen(where));
    server.local.sun_family = AF_UNIX;
    strcpy(server.local.sun_path, where);
    server_size = sizeof server.local;
}

static void read_requests(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) < 0)
        fail("cannot read the file of requests; its name has bytes", (long)strlen(path));
    in_turn_size = (size_t)ftell(file);
    rewind(file);
    in_turn = malloc(in_turn_size + 1);
    if (!in_turn_size || fread(in_turn, 1, in_turn_size, file) != in_turn_size || in_turn[in_turn_size - 1])
        fail("the file of requests does not end with a zero byte; its bytes", (long)in_turn_size);
    fclose(file);
}

static void ask(struct client *c)
{
    if (in_turn && c->is_timed) {
        c->request = in_turn + next_in_turn;
        next_in_turn = (next_in_turn + strlen(c->request) + 1) % in_turn_size;
    }
    c->asked = now();
    c->have = 0;
    c->is_waiting = true;
    if (c->fd < 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        c->fd = socket(server.any.sa_family, SOCK_STREAM, 0);
        if (connect(c->fd, &server.any, server_size) < 0)
            fail("cannot connect; answers so far", c->answers);
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    }
    if (send(c->fd, c->request, strlen(c->request), MSG_NOSIGNAL) < 0)
        fail("a kept connection was closed without a word; answers so far", c->answers);
}

/* The size of the body in these chunks, which is put into `decoded`; -1 if the last chunk has not come. */
static ssize_t decode(const char *from, const char *end)
{
    size_t size = 0;
    for (;;) {
        const char *data = memmem(from, (size_t)(end - from), "\r\n", 2);
        if (!data)
            return -1;
        size_t left = (size_t)(end - data) - 2, chunk = strtoul(from, NULL, 16);
        data += 2;
        if (left < 2 || left - 2 < chunk)
            return -1;
        if (!chunk) {
            if (left > 2)
                fail("bytes behind an answer", (long)left - 2);
            return (ssize_t)size;
        }
        memcpy(decoded + size, data, chunk);
        size += chunk;
        from = data + chunk + 2;
    }
}

/* Whether the answer is whole, and then right. has_ended: the server sends no more. */
static bool is_whole(struct client *c, bool has_ended)
{
    c->answer[c->have] = 0;
    char *end = memmem(c->answer, c->have, "\r\n\r\n", 4);
    if (!end)
        return false;
    if (strncmp(c->answer, "HTTP/1.1 200", 12))
        fail("not 200, but status", c->have > 12 ? atol(c->answer + 9) : 0);
    end[2] = 0; /* strings are looked for in the head only */
    char *length = strcasestr(c->answer, "\r\nContent-Length:");
    bool is_chunked = strcasestr(c->answer, "\r\nTransfer-Encoding: chunked\r\n");
    bool is_closing = has_ended || strcasestr(c->answer, "\r\nConnection: close\r\n");
    end[2] = '\r';
    const char *got = end + 4;
    ssize_t size = c->answer + c->have - got;
    if (is_chunked) {
        bool may_be_last = size >= 5 && !memcmp(c->answer + c->have - 5, "0\r\n\r\n", 5);
        if (!may_be_last || (size = decode(got, c->answer + c->have)) < 0)
            return false;
        got = decoded;
    } else if (length ? size < atol(length + 17) : !has_ended) {
        return false;
    }
    if ((size_t)size != body_size || memcmp(got, body, body_size))
        fail("wrong answer; its bytes", (long)size);
    if (is_closing) {
        close(c->fd);
        c->fd = -1;
    }
    return true;
}

/* Take what has come; whether the answer is whole. */
static bool receive(struct client *c)
{
    ssize_t size = recv(c->fd, c->answer + c->have, ANSWER_BYTES - 1 - c->have, 0);
    if (size > 0)
        c->have += (size_t)size;
    if (!is_whole(c, size == 0)) {
        if (size <= 0)
            fail("closed within an answer; bytes of it", (long)c->have);
        return false;
    }
    c->is_waiting = false;
    if (!c->is_timed)
        return true;
    if (timed == room)
        times = realloc(times, (room = room ? 2 * room : 1 << 16) * sizeof *times);
    times[timed++] = now() - c->asked;
    return true;
}

static void load(double milliseconds)
{
    struct epoll_event events[64];
    double end = now() + milliseconds, left;
    for (int i = 0; i < count; i++)
        ask(&clients[i]);
    while ((left = end - now()) > 0) {
        int n = epoll_wait(epoll, events, 64, (int)left + 1);
        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;
            if (receive(c)) {
                c->answers++;
                ask(c);
            }
        }
    }
    for (int waiting = count; waiting;) {
        int n = epoll_wait(epoll, events, 64, PATIENCE_MS);
        if (n == 0)
            fail("no answer for five seconds; clients that wait", waiting);
        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;
            if (!c->is_waiting) /* its server closes, now that nothing is asked */
                epoll_ctl(epoll, EPOLL_CTL_DEL, c->fd, NULL);
            else if (receive(c))
                waiting--;
        }
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(double percent)
{
    double rank = (double)timed * percent / 100;
    size_t whole = (size_t)rank;
    whole += (double)whole < rank;
    return times[whole ? whole - 1 : 0];
}

static void print_answers(const char *name, int from, int to)
{
    printf("\"%s\": [", name);
    for (int i = from; i < to; i++)
        printf("%s%ld", i > from ? ", " : "", clients[i].answers);
    printf("], ");
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: tally PORT|PATH SECONDS CLIENTS REQUEST|@FILE OTHER_CLIENTS OTHER_REQUEST <BODY\n");
        return 2;
    }
    int first = atoi(argv[3]);
    set_server(argv[1]);
    count = first + atoi(argv[5]);
    body_size = fread(body, 1, sizeof body, stdin);
    clients = calloc((size_t)count, sizeof *clients);
    epoll = epoll_create1(0);
    if (argv[4][0] == '@')
        read_requests(argv[4] + 1);
    for (int i = 0; i < count; i++) {
        clients[i].fd = -1;
        clients[i].is_timed = i < first;
        clients[i].request = argv[i < first ? 4 : 6];
    }
    load(atof(argv[2]) * 1e3);
    qsort(times, timed, sizeof *times, compare);
    printf("{");
    print_answers("answers", 0, first);
    print_answers("others", first, count);
    printf("\"p50\": %.6f, \"p99\": %.6f, \"p99.9\": %.6f}\n", percentile(50), percentile(99), percentile(99.9));
}
