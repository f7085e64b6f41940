/* The clients of the article of 2010: one request after another, a hundred at once each second, and some at once.
 *
 * Each request has a connection and, in the parallel test, a thread of its own. Three moments are taken: just before
 * connect(), after 15 bytes (a status line, `HTTP/1.0 200 OK`) and at the end of the connection. `arrived` is when the
 * kernel had these 15 bytes, or the last of the bytes that were read together with them: from then until `ans` the
 * client waits for its own core. Opening the socket, comparing the page and closing lie outside of these times, but
 * within the time of the test.
 *
 * An answer is right if its status is 200 and its page is what stdin gives, where a byte 0 stands for any byte. Only
 * right answers count in the means. The parallel test ends early when LIMIT requests have no answer yet. If the client
 * itself lacks a descriptor, a port or a thread, that is no fault of the server: the test ends with status 1.
 *
 *     visits serial PORT PATH SECONDS <PAGE
 *     visits parallel PORT PATH SECONDS EACH LIMIT <PAGE
 *     visits burst PORT PATH COUNT <PAGE
 *
 * It prints one line of JSON; times are seconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_BYTES = 15, ANSWER_BYTES = 1 << 15, STACK_BYTES = 1 << 17, PATIENCE = 30 };
enum outcome { RIGHT, REFUSED, RESET, SILENT, STATUS, WRONG, OUTCOMES };

static const char *const NAMES[] = {"right", "refused", "reset", "silent", "status", "wrong"};

struct visit {
    enum outcome outcome;
    double ans, arrived, res; /* from just before connect() */
};

static int port;
static char request[1024], page[ANSWER_BYTES];
static size_t page_size;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static long counts[OUTCOMES], started, finished;
static double arrived, res, *answers; /* sums of right answers, and the `ans` of each */
static size_t room;

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *what)
{
    fprintf(stderr, "no %s for request %ld: %s\n", what, started, strerror(errno));
    _exit(1);
}

static enum outcome fault(void)
{
    if (errno == EADDRNOTAVAIL)
        fail("port");
    if (errno == ECONNREFUSED)
        return REFUSED;
    return errno == EAGAIN || errno == EINPROGRESS ? SILENT : RESET; /* by SO_RCVTIMEO and SO_SNDTIMEO */
}

static int open_socket(void)
{
    struct timeval patience = {.tv_sec = PATIENCE};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail("descriptor");
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    return fd;
}

/* As recv(); `when` becomes the time of CLOCK_REALTIME at which the last of these bytes arrived. */
static ssize_t receive(int fd, char *to, size_t size, double *when)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct timespec))];
    } control;
    struct iovec part = {.iov_base = to, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, 0);
    struct cmsghdr *told = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (told && told->cmsg_level == SOL_SOCKET && told->cmsg_type == SCM_TIMESTAMPNS) {
        struct timespec time;
        memcpy(&time, CMSG_DATA(told), sizeof time);
        *when = (double)time.tv_sec + (double)time.tv_nsec / 1e9;
    }
    return got;
}

static enum outcome judge(const char *answer, size_t size)
{
    if (size < STATUS_BYTES)
        return RESET;
    if (strncmp(answer, "HTTP/1.", 7) || strncmp(answer + 8, " 200 ", 5))
        return STATUS;
    const char *body = memmem(answer, size, "\r\n\r\n", 4);
    if (!body || (size_t)(answer + size - body) - 4 < page_size)
        return RESET;
    if ((size_t)(answer + size - body) - 4 > page_size)
        return WRONG;
    body += 4;
    for (size_t i = 0; i < page_size; i++)
        if (page[i] && page[i] != body[i])
            return WRONG;
    return RIGHT;
}

static enum outcome ask(int fd, struct visit *v)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    char answer[ANSWER_BYTES];
    size_t have = 0;
    ssize_t got;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    double realtime = now(CLOCK_REALTIME), begin = now(CLOCK_MONOTONIC), when = 0;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return fault();
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
        return fault();
    while (have < STATUS_BYTES) {
        if ((got = receive(fd, answer + have, ANSWER_BYTES - have, &when)) < 0)
            return fault();
        if (got == 0)
            return RESET;
        have += (size_t)got;
    }
    v->ans = now(CLOCK_MONOTONIC) - begin;
    v->arrived = when ? when - realtime : v->ans;
    while (have < ANSWER_BYTES && (got = recv(fd, answer + have, ANSWER_BYTES - have, 0)) > 0)
        have += (size_t)got;
    v->res = now(CLOCK_MONOTONIC) - begin;
    if (have == ANSWER_BYTES)
        return WRONG;
    return got < 0 ? fault() : judge(answer, have);
}

static void account(const struct visit *v)
{
    pthread_mutex_lock(&lock);
    finished++;
    if (v->outcome == RIGHT) {
        if ((size_t)counts[RIGHT] == room)
            answers = realloc(answers, (room = room ? 2 * room : 1 << 14) * sizeof *answers);
        answers[counts[RIGHT]] = v->ans;
        arrived += v->arrived;
        res += v->res;
    }
    counts[v->outcome]++;
    pthread_mutex_unlock(&lock);
}

static void *visit(void *unused)
{
    struct visit v = {0};
    int fd = open_socket();
    v.outcome = ask(fd, &v);
    account(&v);
    close(fd);
    return unused;
}

static void sleep_until(double when)
{
    struct timespec time = {.tv_sec = (time_t)when};
    time.tv_nsec = (long)((when - (double)time.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL))
        ;
}

static void serial(double end)
{
    while (now(CLOCK_MONOTONIC) < end) {
        started++;
        visit(NULL);
    }
}

/* Start so many requests; false if `limit` requests have no answer yet, and so not all were started. */
static bool start(int count, int limit)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        pthread_mutex_lock(&lock);
        bool is_full = started - finished >= limit;
        started += !is_full;
        pthread_mutex_unlock(&lock);
        if (is_full)
            return false;
        errno = pthread_create(&thread, &attributes, visit, NULL);
        if (errno)
            fail("thread");
    }
    return true;
}

/* Start `each` requests every second; false if the test ended early. */
static bool parallel(double begin, int seconds, int each, int limit)
{
    for (int second = 0; second < seconds; second++) {
        sleep_until(begin + second);
        if (!start(each, limit))
            return false;
    }
    sleep_until(begin + seconds);
    return true;
}

static void burst(int count)
{
    start(count, count);
    for (bool is_over = false; !is_over; usleep(1000)) {
        pthread_mutex_lock(&lock);
        is_over = finished == count;
        pthread_mutex_unlock(&lock);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double own_cpu(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void print_results(double seconds, bool is_whole)
{
    size_t n = (size_t)counts[RIGHT];
    double sum = 0;
    qsort(answers, n, sizeof *answers, compare);
    for (size_t i = 0; i < n; i++)
        sum += answers[i];
    printf("{\"seconds\": %.6f, \"stopped\": %d, \"started\": %ld, \"unfinished\": %ld, \"cpu\": %.6f", seconds,
           !is_whole, started, started - finished, own_cpu());
    for (int i = 0; i < OUTCOMES; i++)
        printf(", \"%s\": %ld", NAMES[i], counts[i]);
    if (n)
        printf(", \"ans\": %.9f, \"arrived\": %.9f, \"res\": %.9f, \"p50\": %.9f, \"p99\": %.9f", sum / (double)n,
               arrived / (double)n, res / (double)n, answers[(n - 1) / 2], answers[(n * 99 + 99) / 100 - 1]);
    printf("}\n");
}

int main(int argc, char **argv)
{
    const char *test = argc > 4 ? argv[1] : "";
    bool is_whole = true;
    if (argc != (strcmp(test, "parallel") ? 5 : 7)) {
        fprintf(stderr, "usage: visits serial|parallel|burst PORT PATH NUMBER... <PAGE\n");
        return 2;
    }
    port = atoi(argv[2]);
    snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", argv[3]);
    page_size = fread(page, 1, sizeof page, stdin);
    double begin = now(CLOCK_MONOTONIC);
    if (!strcmp(test, "serial"))
        serial(begin + atof(argv[4]));
    else if (!strcmp(test, "burst"))
        burst(atoi(argv[4]));
    else
        is_whole = parallel(begin, atoi(argv[4]), atoi(argv[5]), atoi(argv[6]));
    double seconds = now(CLOCK_MONOTONIC) - begin;
    pthread_mutex_lock(&lock); /* threads that are still there stop at it, and end with the program */
    print_results(seconds, is_whole);
    fflush(stdout);
    _exit(0);
}
