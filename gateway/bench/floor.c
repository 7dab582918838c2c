/* A gateway in C: the least that anything costs which passes MCP messages on and records them.

   floor RECORDING COMMAND ...

   Starts COMMAND, speaks MCP over stdio on both sides, one message a line. What it does for a call is what Tieline does
   for a recorded one: it finds the message's own id, gives it another on the way out and the old one back on the way
   in, and writes a line for either message before it is passed on. It does nothing else: no eras, hooks, secrets,
   cancellation or limits. What it cannot read ends it. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 65536, PENDING = 4096, LONGEST = 64, MOST_READY = 2 };

struct id {
    char text[LONGEST];
    size_t length;
};

struct side {
    int from, to;
    char *data;
    size_t length, room;
};

static struct id pending[PENDING];
static unsigned long calls, frames;
static int recording;

static void fail(const char *what) {
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void write_all(int to, const char *data, size_t length) {
    while (length) {
        ssize_t written = write(to, data, length);
        if (written < 0)
            fail("cannot write");
        data += written;
        length -= (size_t)written;
    }
}

static const char *end_of_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at < end ? at + 1 : end;
}

/* Find the value of the member `id` of the outermost object. Returns its length, 0 where there is none. */
static size_t find_id(const char *line, size_t length, const char **value) {
    const char *end = line + length;
    int depth = 0;
    for (const char *at = line; at < end;) {
        if (*at == '"') {
            const char *name = at;
            at = end_of_string(at, end);
            if (depth == 1 && at - name == 4 && at < end && *at == ':' && !memcmp(name, "\"id\"", 4)) {
                *value = ++at;
                if (at < end && *at == '"')
                    at = end_of_string(at, end);
                else
                    while (at < end && *at != ',' && *at != '}')
                        at++;
                return (size_t)(at - *value);
            }
            continue;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    }
    return 0;
}

static void record(const char *way, const char *line, size_t length) {
    static char buffer[4 * CHUNK];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int head = snprintf(buffer, 256, "{\"seq\":%lu,\"at\":%lld,\"way\":\"%s\",\"body\":", frames++,
                        (long long)now.tv_sec * 1000000000 + now.tv_nsec, way);
    if ((size_t)head + length + 2 > sizeof buffer) {
        write_all(recording, buffer, (size_t)head);
        write_all(recording, line, length);
        write_all(recording, "}\n", 2);
        return;
    }
    memcpy(buffer + head, line, length);
    memcpy(buffer + head + length, "}\n", 2);
    write_all(recording, buffer, (size_t)head + length + 2);
}

/* Pass one line on, with another id in the place of its own. */
static void pass(const struct side *side, const char *line, size_t length, int is_answer) {
    static char buffer[4 * CHUNK];
    char fresh[24];
    const char *value = NULL, *with = fresh;
    size_t had = find_id(line, length, &value), has = 0;
    record(is_answer ? "peer>" : "core>", line, length);
    if (had && is_answer) {
        struct id *old = &pending[strtoul(value, NULL, 10) % PENDING];
        with = old->text;
        has = old->length;
    } else if (had) {
        if (had > LONGEST)
            exit(2);
        struct id *kept = &pending[calls % PENDING];
        memcpy(kept->text, value, had);
        kept->length = had;
        has = (size_t)snprintf(fresh, sizeof fresh, "%lu", calls++);
    }
    size_t before = had ? (size_t)(value - line) : length;
    size_t after = had ? length - before - had : 0;
    if (length + has + 1 > sizeof buffer)
        exit(2);
    memcpy(buffer, line, before);
    memcpy(buffer + before, with, has);
    memcpy(buffer + before + has, line + before + had, after);
    buffer[before + has + after] = '\n';
    write_all(side->to, buffer, before + has + after + 1);
}

/* Read once, and pass on every line that is whole. Returns 0 at the end. */
static int turn(struct side *side, int is_answer) {
    if (side->room - side->length < CHUNK) {
        side->room += CHUNK;
        side->data = realloc(side->data, side->room);
        if (!side->data)
            fail("no memory");
    }
    ssize_t got = read(side->from, side->data + side->length, CHUNK);
    if (got < 0)
        fail("cannot read");
    char *start = side->data, *searched = side->data + side->length;
    side->length += (size_t)got;
    char *end = side->data + side->length;
    for (char *stop; (stop = memchr(searched, '\n', (size_t)(end - searched))); start = searched = stop + 1)
        pass(side, start, (size_t)(stop - start), is_answer);
    side->length = (size_t)(end - start);
    memmove(side->data, start, side->length);
    return got > 0;
}

int main(int count, char **words) {
    int down[2], up[2];
    if (count < 3) {
        fprintf(stderr, "usage: floor RECORDING COMMAND ...\n");
        return 2;
    }
    recording = open(words[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (recording < 0 || pipe2(down, O_CLOEXEC) || pipe2(up, O_CLOEXEC))
        fail(words[1]);
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (!child) {
        dup2(down[0], 0);
        dup2(up[1], 1);
        execvp(words[2], words + 2);
        fail(words[2]);
    }
    close(down[0]);
    close(up[1]);
    struct side core = {0, down[1], NULL, 0, 0}, peer = {up[0], 1, NULL, 0, 0};
    struct side *sides[] = {&core, &peer};
    int poll = epoll_create1(EPOLL_CLOEXEC);
    for (int which = 0; which < 2; which++) {
        struct epoll_event event = {EPOLLIN, {.u32 = (unsigned)which}};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, sides[which]->from, &event))
            fail("epoll");
    }
    for (int is_open = 1; is_open;) {
        struct epoll_event ready[MOST_READY];
        int found = epoll_wait(poll, ready, MOST_READY, -1);
        for (int i = 0; i < found && is_open; i++)
            is_open = turn(sides[ready[i].data.u32], (int)ready[i].data.u32);
    }
    close(down[1]);
    waitpid(child, NULL, 0);
    return 0;
}
