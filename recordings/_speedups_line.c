/* The line of a frame: its form filled in, its checksum, and the newline, by one allocation.
 *
 * Owns CRC32C and how numbers and bodies come into a form. What a form says, and which frames have one, Python knows;
 * where a value is none of those that a frame mostly has, Python's `%` fills it in.
 */

#include "_speedups.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_SSE 1
#endif

/* CRC32C */

#define POLYNOMIAL 0x82f63b78u

static uint32_t table[8][256];

/* When the library is loaded, and so before any thread can ask. */
__attribute__((constructor)) static void
fill_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) {
            sum = (sum >> 1) ^ (sum & 1 ? POLYNOMIAL : 0);
        }
        table[0][byte] = sum;
    }
    for (int ahead = 1; ahead < 8; ahead++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t sum = table[ahead - 1][byte];
            table[ahead][byte] = (sum >> 8) ^ table[0][sum & 255];
        }
    }
}

static uint32_t
sum_by_table(const unsigned char *at, Py_ssize_t size)
{
    uint32_t sum = ~0u;
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t low = sum ^ (at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        sum = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24]
            ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^ table[0][at[7]];
    }
    for (; size > 0; size--, at++) {
        sum = (sum >> 8) ^ table[0][(sum ^ *at) & 255];
    }
    return ~sum;
}

#ifdef HAS_SSE

static inline uint64_t
word(const unsigned char *at)
{
    uint64_t found;
    memcpy(&found, at, sizeof(found));
    return found;
}

__attribute__((target("sse4.2,pclmul"))) static inline uint32_t
moved(uint64_t sum, uint32_t over)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)sum), _mm_cvtsi32_si128((int)over), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* Sum what there is of three blocks at a time, three sums at once: the instruction takes one cycle, and what it gives is
 * there after three. `over_one` and `over_two` are x to the power of 8 * block - 33 and of 16 * block - 33, modulo the
 * polynomial and mirrored: times one of these, a sum is that of its bytes with so many zeros behind them. */
__attribute__((target("sse4.2,pclmul"))) static inline uint64_t
sum_blocks(uint64_t sum, const unsigned char **data, Py_ssize_t *size, int block, uint32_t over_one, uint32_t over_two)
{
    const unsigned char *at = *data;
    for (; *size >= 3 * block; *size -= 3 * block, at += 3 * block) {
        uint64_t second = 0, third = 0;
        for (int offset = 0; offset < block; offset += 8) {
            sum = _mm_crc32_u64(sum, word(at + offset));
            second = _mm_crc32_u64(second, word(at + block + offset));
            third = _mm_crc32_u64(third, word(at + 2 * block + offset));
        }
        sum = moved(sum, over_two) ^ moved(second, over_one) ^ third;
    }
    *data = at;
    return sum;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t
sum_by_sse(const unsigned char *at, Py_ssize_t size)
{
    uint64_t sum = sum_blocks(~0u, &at, &size, 2048, 0xa51b6135u, 0x82f89c77u);
    sum = sum_blocks(sum, &at, &size, 128, 0x0d3b6092u, 0xb9e02b86u);
    for (; size >= 8; size -= 8, at += 8) {
        sum = _mm_crc32_u64(sum, word(at));
    }
    for (; size > 0; size--, at++) {
        sum = _mm_crc32_u8((uint32_t)sum, *at);
    }
    return ~(uint32_t)sum;
}

#endif

static uint32_t
sum_of(const char *data, Py_ssize_t size)
{
#ifdef HAS_SSE
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
        return sum_by_sse((const unsigned char *)data, size);
    }
#endif
    return sum_by_table((const unsigned char *)data, size);
}

/* Lines */

#define MOST_VALUES 8
#define LONGEST (PY_SSIZE_T_MAX / 16)
#define SUM ",\"crc\":"
#define SUM_SIZE (sizeof(SUM) - 1)
/* What a line has behind its frame, less the brace that moves there: the sum, ten digits of it, and two more. */
#define ROOM ((Py_ssize_t)(SUM_SIZE + 10 + 1))
#define WASTE 64

typedef struct {
    const char *at;
    Py_ssize_t size;
    char kind;
    char digits[20];
} Value;

/* Write a number's digits before `end`, and return where they begin. */
static char *
spelt(char *end, unsigned long long number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return end;
}

/* Whether a value is one that most frames have; if so, what is to be filled in for it. */
static int
taken(Value *value, PyObject *given)
{
    if (PyLong_CheckExact(given)) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(given, &overflow);
        if (overflow) {
            return 0;
        }
        char *end = value->digits + sizeof(value->digits);
        char *begin = spelt(end, number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number);
        if (number < 0) {
            *--begin = '-';
        }
        value->kind = 'd';
        value->at = begin;
        value->size = end - begin;
        return 1;
    }
    value->kind = 'b';
    if (!PyBytes_CheckExact(given)) {
        return 0;
    }
    value->at = PyBytes_AS_STRING(given);
    value->size = PyBytes_GET_SIZE(given);
    return value->size < LONGEST;
}

/* Make a line of the frame of `size` bytes at the beginning of `line`, which has `ROOM` behind that. Takes over the
 * reference. */
static PyObject *
closed(PyObject *line, Py_ssize_t size)
{
    char *begin = PyBytes_AS_STRING(line);
    char number[10];
    char *first = spelt(number + sizeof(number), sum_of(begin, size));
    char *end = begin + size - 1;
    memcpy(end, SUM, SUM_SIZE);
    end += SUM_SIZE;
    size = number + sizeof(number) - first;
    memcpy(end, first, (size_t)size);
    end += size;
    *end++ = '}';
    *end++ = '\n';
    size = end - begin;
    if (PyBytes_GET_SIZE(line) - size > WASTE) {
        _PyBytes_Resize(&line, size);
        return line;
    }
    /* To give a few bytes back costs more than they are worth. */
    *end = '\0';
    Py_SET_SIZE(line, size);
    return line;
}

/* Fill values into a form; return how much was written, or -1 where they do not fit it. */
static Py_ssize_t
written(char *out, const char *form, const char *end, const Value *value, const Value *last)
{
    const char *begin = out;
    const char *mark;
    while ((mark = memchr(form, '%', (size_t)(end - form))) != NULL) {
        memcpy(out, form, (size_t)(mark - form));
        out += mark - form;
        char kind = mark[1]; /* a zero at the end of the form */
        if (kind == '%') {
            *out++ = '%';
        } else if (value < last && kind == value->kind) {
            memcpy(out, value->at, (size_t)value->size);
            out += value->size;
            value++;
        } else {
            return -1;
        }
        form = mark + 2;
    }
    memcpy(out, form, (size_t)(end - form));
    out += end - form;
    return value == last ? out - begin : -1;
}

/* As `line_filled`; without an exception NULL, where it is for Python to fill in the form. */
static PyObject *
plainly_filled(PyObject *form, PyObject *const *given, Py_ssize_t count)
{
    if (!PyBytes_CheckExact(form) || count > MOST_VALUES) {
        return NULL;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(form);
    if (size >= LONGEST) {
        return NULL;
    }
    Value values[MOST_VALUES];
    Py_ssize_t room = size + ROOM;
    for (Py_ssize_t each = 0; each < count; each++) {
        if (!taken(&values[each], given[each])) {
            return NULL;
        }
        room += values[each].size;
    }
    PyObject *line = PyBytes_FromStringAndSize(NULL, room);
    if (line == NULL) {
        return NULL;
    }
    const char *begin = PyBytes_AS_STRING(form);
    size = written(PyBytes_AS_STRING(line), begin, begin + size, values, values + count);
    if (size <= 0) {
        Py_DECREF(line);
        return NULL;
    }
    return closed(line, size);
}

static PyObject *
line_from(PyObject *module, PyObject *payload)
{
    (void)module;
    if (!PyBytes_Check(payload)) {
        return PyErr_Format(PyExc_TypeError, "a payload is bytes, not %.100s", Py_TYPE(payload)->tp_name);
    }
    Py_ssize_t size = PyBytes_GET_SIZE(payload);
    if (size == 0) {
        return PyBytes_FromString(SUM "0}\n");
    }
    PyObject *line = size < LONGEST ? PyBytes_FromStringAndSize(NULL, size + ROOM) : PyErr_NoMemory();
    if (line == NULL) {
        return NULL;
    }
    memcpy(PyBytes_AS_STRING(line), PyBytes_AS_STRING(payload), (size_t)size);
    return closed(line, size);
}

static PyObject *
line_filled(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "line_filled takes a form and its values");
        return NULL;
    }
    PyObject *line = plainly_filled(given[0], given + 1, count - 1);
    if (line != NULL || PyErr_Occurred()) {
        return line;
    }
    PyObject *values = PyTuple_New(count - 1);
    if (values == NULL) {
        return NULL;
    }
    for (Py_ssize_t each = 1; each < count; each++) {
        PyTuple_SET_ITEM(values, each - 1, Py_NewRef(given[each]));
    }
    PyObject *payload = PyNumber_Remainder(given[0], values);
    Py_DECREF(values);
    if (payload == NULL) {
        return NULL;
    }
    line = line_from(module, payload);
    Py_DECREF(payload);
    return line;
}

static PyObject *
crc32c(PyObject *module, PyObject *data)
{
    (void)module;
    if (!PyBytes_Check(data)) {
        return PyErr_Format(PyExc_TypeError, "a sum is of bytes, not %.100s", Py_TYPE(data)->tp_name);
    }
    return PyLong_FromUnsignedLong(sum_of(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)));
}

static PyObject *
crc32c_by_table(PyObject *module, PyObject *data)
{
    (void)module;
    if (!PyBytes_Check(data)) {
        return PyErr_Format(PyExc_TypeError, "a sum is of bytes, not %.100s", Py_TYPE(data)->tp_name);
    }
    return PyLong_FromUnsignedLong(
        sum_by_table((const unsigned char *)PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)));
}

static PyMethodDef methods[] = {
    {"crc32c", crc32c, METH_O, NULL},
    {"crc32c_by_table", crc32c_by_table, METH_O, NULL},
    {"line_filled", (PyCFunction)(void (*)(void))line_filled, METH_FASTCALL, NULL},
    {"line_from", line_from, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int
add_line(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
