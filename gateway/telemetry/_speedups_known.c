/* Calls that are known again by what stands around their ids.
 *
 * Owns the table of them. How many there may be, and how long, `plain` says: MOST_KNOWN and LONGEST_KNOWN.
 */

#include "_speedups.h"

#include <string.h>

#define MOST_KNOWN 1024
#define SLOTS 2048
#define TRIES 8
#define NEAR 64
/* How far from its beginning an id is looked for from there; most stand there, or at the end. */

static int
is_there(const char *at, const char *sought, Py_ssize_t length)
{
    return at[0] == sought[0] && at[1] == sought[1] && memcmp(at, sought, (size_t)length) == 0;
}

/* One of the places where a message says its id, always the same for what stands around it; NULL where there is none.
 * What is found need not be the member of the envelope: where it is not, that stands behind or before it, as the same. */
static const char *
find_id(const char *body, Py_ssize_t size, const char *sought, Py_ssize_t length)
{
    Py_ssize_t last = size - length, near = last < NEAR ? last : NEAR;
    for (Py_ssize_t at = 0; at <= near; at++) {
        if (is_there(body + at, sought, length)) {
            return body + at;
        }
    }
    for (Py_ssize_t at = last; at > near; at--) {
        if (is_there(body + at, sought, length)) {
            return body + at;
        }
    }
    return NULL;
}

static uint64_t
mark_of(uint64_t mark, const char *data, Py_ssize_t size)
{
    const uint64_t by = 0x9e3779b97f4a7c15;
    uint64_t word;
    while (size >= 8) {
        memcpy(&word, data, 8);
        mark = (mark ^ word) * by;
        mark ^= mark >> 32;
        data += 8;
        size -= 8;
    }
    word = (uint64_t)size;
    memcpy(&word, data, (size_t)size);
    mark = (mark ^ word) * by;
    return mark ^ mark >> 32;
}

/* Where the id of a call stands, and what marks the rest of it; 0 where it stands nowhere. */
static int
look_at(KnownCall *call, PyObject *body, int64_t id)
{
    char sought[5 + NUMBER_BYTES + 1] = "\"id\":";
    Py_ssize_t length = write_id(sought + 5, id) - sought;
    const char *data = PyBytes_AS_STRING(body);
    Py_ssize_t size = PyBytes_GET_SIZE(body);
    const char *found = find_id(data, size, sought, length);
    if (found == NULL) {
        return 0;
    }
    call->begins = found - data;
    call->ends = call->begins + length;
    call->mark = mark_of(mark_of(0, data, call->begins), data + call->ends, size - call->ends);
    return 1;
}

static int
are_equal(PyObject *one, PyObject *other)
{
    if (one == other) {
        return 1;
    }
    return PyUnicode_CheckExact(one) && PyUnicode_CheckExact(other) && PyUnicode_Compare(one, other) == 0;
}

/* What stands behind an id is equal for as long as what stands before it is. */
static int
is_same(const KnownCall *one, const KnownCall *other)
{
    Py_ssize_t behind = PyBytes_GET_SIZE(one->body) - one->ends;
    const char *first = PyBytes_AS_STRING(one->body), *second = PyBytes_AS_STRING(other->body);
    return one->mark == other->mark && one->begins == other->begins
        && behind == PyBytes_GET_SIZE(other->body) - other->ends
        && memcmp(first, second, (size_t)one->begins) == 0
        && memcmp(first + one->ends, second + other->ends, (size_t)behind) == 0
        && are_equal(one->name, other->name) && are_equal(one->peer, other->peer);
}

PyObject *
find_known(const KnownCalls *known, PyObject *peer, PyObject *name, PyObject *body, int64_t id)
{
    KnownCall sought = {.peer = peer, .name = name, .body = body};
    if (known->slots == NULL || !look_at(&sought, body, id)) {
        return NULL;
    }
    for (int step = 0; step < TRIES; step++) {
        const KnownCall *call = known->slots[(sought.mark + (uint64_t)step) % SLOTS];
        if (call == NULL) {
            return NULL;
        }
        if (is_same(call, &sought)) {
            return call->told;
        }
    }
    return NULL;
}

static void
drop(KnownCall *call)
{
    if (call != NULL) {
        Py_DECREF(call->peer);
        Py_DECREF(call->name);
        Py_DECREF(call->body);
        Py_DECREF(call->told);
        PyMem_Free(call);
    }
}

/* Where a call is to be: where it is, or the first free place, or in the place of another one. */
static KnownCall **
place_of(const KnownCalls *known, const KnownCall *call)
{
    for (int step = 0; step < TRIES; step++) {
        KnownCall **place = &known->slots[(call->mark + (uint64_t)step) % SLOTS];
        if (*place == NULL || is_same(*place, call)) {
            return place;
        }
    }
    return &known->slots[call->mark % SLOTS];
}

int
learn_known(KnownCalls *known, PyObject *peer, PyObject *name, PyObject *body, int64_t id, PyObject *told)
{
    KnownCall found = {.peer = peer, .name = name, .body = body, .told = told};
    if (!look_at(&found, body, id)) {
        return 0;
    }
    if (known->count >= MOST_KNOWN) {
        forget_known(known);
    }
    if (known->slots == NULL) {
        known->slots = PyMem_Calloc(SLOTS, sizeof *known->slots);
    }
    KnownCall *call = known->slots == NULL ? NULL : PyMem_Malloc(sizeof *call);
    if (call == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *call = found;
    Py_INCREF(peer);
    Py_INCREF(name);
    Py_INCREF(body);
    Py_INCREF(told);
    KnownCall **place = place_of(known, call), *before = *place;
    known->count += before == NULL;
    *place = call;
    drop(before);
    return 0;
}

void
forget_known(KnownCalls *known)
{
    KnownCall **slots = known->slots;
    known->slots = NULL;
    known->count = 0;
    if (slots != NULL) {
        for (int at = 0; at < SLOTS; at++) {
            drop(slots[at]);
        }
        PyMem_Free(slots);
    }
}
