/* Numbers as lines have them, and whether an answer is an ordinary result.
 *
 * Owns what is done byte by byte, and knows no Python object.
 */

#include "_speedups.h"

#include <string.h>

char *
write_number(char *to, uint64_t number)
{
    char digits[NUMBER_BYTES];
    char *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    size_t count = (size_t)(digits + sizeof digits - at);
    for (size_t step = 0; step < count; step++) {
        to[step] = at[step];
    }
    return to + count;
}

/* A sign more. */
char *
write_id(char *to, int64_t id)
{
    if (id < 0) {
        *to++ = '-';
        return write_number(to, 0 - (uint64_t)id);
    }
    return write_number(to, (uint64_t)id);
}

char *
write_milliseconds(char *to, int64_t took)
{
    const int64_t most = 1000000000000;
    if (took >= most * 1000) {
        return NULL;
    }
    int64_t thousandths = took > 0 ? (took + 500) / 1000 : 0;
    if (thousandths >= most || thousandths * 1000 - took == 500) {
        /* Half of one goes where a float says. */
        return NULL;
    }
    to = write_number(to, (uint64_t)(thousandths / 1000));
    int left = (int)(thousandths % 1000);
    *to++ = '.';
    *to++ = (char)('0' + left / 100);
    if (left % 100 != 0) {
        *to++ = (char)('0' + left / 10 % 10);
        if (left % 10 != 0) {
            *to++ = (char)('0' + left % 10);
        }
    }
    return to;
}

/* Whether what begins here with two letters of a word, or of an escape, is nothing to look closer at: that there is no
 * error, or a letter that none of the words has. `before` and `behind` are bytes that there are. */
static int
is_harmless(const char *at, Py_ssize_t before, Py_ssize_t behind)
{
    static const char no_error[] = "\"isError\":false", spaced[] = "\"isError\": false";
    if (*at == '\\') {
        return behind >= 5 && !(at[2] == '0' && at[3] == '0' && at[4] >= '4' && at[4] <= '7');
    }
    if (*at != 's' || before < 2) {
        return 0;
    }
    behind += 2;
    return (behind >= (Py_ssize_t)sizeof no_error - 1 && memcmp(at - 2, no_error, sizeof no_error - 1) == 0)
        || (behind >= (Py_ssize_t)sizeof spaced - 1 && memcmp(at - 2, spaced, sizeof spaced - 1) == 0);
}

/* Whether two bytes are of `isError`, of `resultType`, or begin the escape of a letter. */
static int
may_say(char first, char second)
{
    return (first == 's' && second == 'E') || (first == 't' && second == 'T') || (first == '\\' && second == 'u');
}

static int
looks_plain(const char *body, Py_ssize_t at, Py_ssize_t size)
{
    for (; at + 1 < size; at++) {
        if (may_say(body[at], body[at + 1]) && !is_harmless(body + at, at, size - at)) {
            return 0;
        }
    }
    return 1;
}

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

__attribute__((target("avx2"))) static int
looks_plain_by_vectors(const char *body, Py_ssize_t size)
{
    const __m256i e = _mm256_set1_epi8('E'), s = _mm256_set1_epi8('s'), big_t = _mm256_set1_epi8('T');
    const __m256i t = _mm256_set1_epi8('t'), u = _mm256_set1_epi8('u'), slash = _mm256_set1_epi8('\\');
    Py_ssize_t at = 0;
    for (; at + 33 <= size; at += 32) {
        __m256i first = _mm256_loadu_si256((const __m256i *)(body + at));
        __m256i second = _mm256_loadu_si256((const __m256i *)(body + at + 1));
        __m256i error = _mm256_and_si256(_mm256_cmpeq_epi8(first, s), _mm256_cmpeq_epi8(second, e));
        __m256i kind = _mm256_and_si256(_mm256_cmpeq_epi8(first, t), _mm256_cmpeq_epi8(second, big_t));
        __m256i escape = _mm256_and_si256(_mm256_cmpeq_epi8(first, slash), _mm256_cmpeq_epi8(second, u));
        unsigned found = (unsigned)_mm256_movemask_epi8(_mm256_or_si256(_mm256_or_si256(error, kind), escape));
        for (; found != 0; found &= found - 1) {
            Py_ssize_t where = at + __builtin_ctz(found);
            if (!is_harmless(body + where, where, size - where)) {
                return 0;
            }
        }
    }
    return looks_plain(body, at, size);
}

int
is_plain_result(const char *body, Py_ssize_t size)
{
    if (__builtin_cpu_supports("avx2")) {
        return looks_plain_by_vectors(body, size);
    }
    return looks_plain(body, 0, size);
}

#else

int
is_plain_result(const char *body, Py_ssize_t size)
{
    return looks_plain(body, 0, size);
}

#endif
