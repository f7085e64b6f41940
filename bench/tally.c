/* A load that counts for each client, which wrk does not: how many answers each got, and how long each request took.
 *
 * Every client asks again as soon as it has its answer, on a kept connection, or on a new one where the answer announced
 * its close. Some clients may send another request, of another kind; times are only kept of the first kind. When the
 * time is over nobody asks any more, but all wait for the answers that are due, so a request that starves has its time.
 * An answer must be 200, with a Content-Length, and with the body that stdin gives; anything else ends the load.
 *
 *     tally PORT SECONDS CLIENTS REQUEST OTHER_CLIENTS OTHER_REQUEST <BODY
 *
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
static int count, epoll, port;
static char body[ANSWER_BYTES];
static size_t body_size;
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

static void ask(struct client *c)
{
    c->asked = now();
    c->have = 0;
    c->is_waiting = true;
    if (c->fd < 0) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0)
            fail("cannot connect; answers so far", c->answers);
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    }
    if (send(c->fd, c->request, strlen(c->request), MSG_NOSIGNAL) < 0)
        fail("a kept connection was closed without a word; answers so far", c->answers);
}

/* The bytes of the answer's head where the answer is whole, else 0. */
static size_t head_of_whole(struct client *c)
{
    c->answer[c->have] = 0;
    char *end = memmem(c->answer, c->have, "\r\n\r\n", 4);
    if (!end)
        return 0;
    end[2] = 0; /* strings are looked for in the head only */
    char *length = strcasestr(c->answer, "\r\nContent-Length:");
    if (strncmp(c->answer, "HTTP/1.1 200", 12) || !length)
        fail("not 200 with a Content-Length, but status", c->have > 12 ? atol(c->answer + 9) : 0);
    size_t head = (size_t)(end - c->answer) + 4, size = (size_t)atol(length + 17);
    bool is_closing = strcasestr(c->answer, "\r\nConnection: close\r\n");
    end[2] = '\r';
    if (c->have < head + size)
        return 0;
    if (c->have != head + size || size != body_size || memcmp(c->answer + head, body, size))
        fail("wrong answer; its bytes", (long)(c->have - head));
    if (is_closing) {
        close(c->fd);
        c->fd = -1;
    }
    return head;
}

/* Take what has come; whether the answer is whole. */
static bool receive(struct client *c)
{
    ssize_t size = recv(c->fd, c->answer + c->have, ANSWER_BYTES - 1 - c->have, 0);
    if (size <= 0)
        fail("closed within an answer; bytes of it", (long)c->have);
    c->have += (size_t)size;
    if (!head_of_whole(c))
        return false;
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
        fprintf(stderr, "usage: tally PORT SECONDS CLIENTS REQUEST OTHER_CLIENTS OTHER_REQUEST <BODY\n");
        return 2;
    }
    int first = atoi(argv[3]);
    port = atoi(argv[1]);
    count = first + atoi(argv[5]);
    body_size = fread(body, 1, sizeof body, stdin);
    clients = calloc((size_t)count, sizeof *clients);
    epoll = epoll_create1(0);
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
