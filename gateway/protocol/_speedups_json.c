/* A strict reader of JSON: strings, numbers and whole values are validated and left where they are.
 *
 * Owns what is JSON. It refuses more than others do, never less: whoever is refused is read in Python. Nothing is
 * recursive, and nothing is read at or past the end.
 */

#include "_speedups.h"

static inline bool
is_tail(byte one)
{
    return (one & 0xC0) == 0x80;
}

/* Step over one character of UTF-8 that is not ASCII, as Python decodes it: no surrogates, nothing longer than need be. */
static bool
skip_character(Reader *reader)
{
    const byte *at = reader->at;
    Py_ssize_t left = reader->end - at;
    byte first = at[0];
    if (first < 0xC2 || first > 0xF4) {
        return false;
    }
    if (first < 0xE0) {
        if (left < 2 || !is_tail(at[1])) {
            return false;
        }
        reader->at = at + 2;
        return true;
    }
    if (first < 0xF0) {
        if (left < 3 || !is_tail(at[1]) || !is_tail(at[2])) {
            return false;
        }
        if ((first == 0xE0 && at[1] < 0xA0) || (first == 0xED && at[1] > 0x9F)) {
            return false;
        }
        reader->at = at + 3;
        return true;
    }
    if (left < 4 || !is_tail(at[1]) || !is_tail(at[2]) || !is_tail(at[3])) {
        return false;
    }
    if ((first == 0xF0 && at[1] < 0x90) || (first == 0xF4 && at[1] > 0x8F)) {
        return false;
    }
    reader->at = at + 4;
    return true;
}

/* The number that four hexadecimal digits are, or -1. */
static int
hexadecimal(const byte *at, const byte *end)
{
    int value = 0;
    if (end - at < 4) {
        return -1;
    }
    for (int number = 0; number < 4; number++) {
        byte digit = at[number];
        if (digit >= '0' && digit <= '9') {
            value = value * 16 + (digit - '0');
        }
        else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f') {
            value = value * 16 + ((digit | 0x20) - 'a' + 10);
        }
        else {
            return -1;
        }
    }
    return value;
}

/* Step over what follows a backslash; half of a surrogate pair is nothing that could be text. */
static bool
skip_escape(Reader *reader)
{
    const byte *at = reader->at + 1;
    if (at >= reader->end) {
        return false;
    }
    switch (*at) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        reader->at = at + 1;
        return true;
    case 'u':
        break;
    default:
        return false;
    }
    int code = hexadecimal(at + 1, reader->end);
    if (code < 0 || (code >= 0xDC00 && code <= 0xDFFF)) {
        return false;
    }
    at += 5;
    if (code >= 0xD800 && code <= 0xDBFF) {
        if (reader->end - at < 6 || at[0] != '\\' || at[1] != 'u') {
            return false;
        }
        code = hexadecimal(at + 2, reader->end);
        if (code < 0xDC00 || code > 0xDFFF) {
            return false;
        }
        at += 6;
    }
    reader->at = at;
    return true;
}

/* The first byte that is not simply text: a quote, a backslash, a control character, or one past ASCII. */
static inline const byte *
first_special(const byte *at, const byte *end)
{
#ifdef HAS_SSE2
    const __m128i quotes = _mm_set1_epi8('"'), slashes = _mm_set1_epi8('\\'), space = _mm_set1_epi8(0x20);
    while (end - at >= 16) {
        __m128i many = _mm_loadu_si128((const __m128i *)at);
        /* Compared as signed numbers, what is past ASCII is less than a space, too. */
        __m128i found = _mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(many, quotes), _mm_cmpeq_epi8(many, slashes)),
            _mm_cmplt_epi8(many, space));
        int mask = _mm_movemask_epi8(found);
        if (mask != 0) {
            return at + __builtin_ctz((unsigned)mask);
        }
        at += 16;
    }
#endif
    while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') {
        at++;
    }
    return at;
}

/* Step over the rest of a string, behind its first quote. */
bool
skip_string(Reader *reader)
{
    const byte *end = reader->end;
    for (;;) {
        const byte *at = first_special(reader->at, end);
        if (at >= end) {
            return false;
        }
        reader->at = at;
        if (*at == '"') {
            reader->at = at + 1;
            return true;
        }
        if (*at == '\\') {
            if (!skip_escape(reader)) {
                return false;
            }
        }
        else if (*at < 0x20 || !skip_character(reader)) {
            return false;
        }
    }
}

/* Read a string that says what it is: without escapes. */
bool
read_text(Reader *reader, Span *text)
{
    if (!takes(reader, '"')) {
        return false;
    }
    text->start = reader->at;
    for (;;) {
        const byte *at = first_special(reader->at, reader->end);
        if (at >= reader->end) {
            return false;
        }
        reader->at = at;
        if (*at == '"') {
            text->end = at;
            reader->at = at + 1;
            return true;
        }
        if (*at < 0x80 || !skip_character(reader)) {
            return false;
        }
    }
}

/* Read the name of a member and the colon behind it, up to its value. */
bool
read_key(Reader *reader, Span *key)
{
    if (!read_text(reader, key) || !takes(reader, ':')) {
        return false;
    }
    skip_space(reader);
    return true;
}

/* Read a whole number as most write it, of which there can be no doubt. */
bool
read_id(Reader *reader, long long *id)
{
    const byte *at = reader->at, *end = reader->end;
    bool is_negative = at < end && *at == '-';
    at += is_negative;
    const byte *digits = at;
    long long value = 0;
    while (at < end && *at >= '0' && *at <= '9' && at - digits < 18) {
        value = value * 10 + (*at - '0');
        at++;
    }
    if (at == digits || (*digits == '0' && (is_negative || at - digits > 1))) {
        return false;
    }
    /* What follows shows whether the number has more to it. */
    if (at >= end || !(*at == ',' || *at == '}' || *at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) {
        return false;
    }
    reader->at = at;
    *id = is_negative ? -value : value;
    return true;
}

static inline const byte *
past_digits(const byte *at, const byte *end)
{
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at;
}

static bool
skip_number(Reader *reader)
{
    const byte *at = reader->at, *end = reader->end;
    at += *at == '-';
    const byte *digits = at;
    at = past_digits(at, end);
    if (at == digits || (*digits == '0' && at - digits > 1)) {
        return false;
    }
    if (at < end && *at == '.') {
        digits = ++at;
        at = past_digits(at, end);
        if (at == digits) {
            return false;
        }
    }
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        digits = at;
        at = past_digits(at, end);
        if (at == digits) {
            return false;
        }
    }
    reader->at = at;
    return true;
}

static inline bool
skip_word(Reader *reader, const char *word, Py_ssize_t size)
{
    if (reader->end - reader->at < size || memcmp(reader->at, word, (size_t)size) != 0) {
        return false;
    }
    reader->at += size;
    return true;
}

static bool
skip_scalar(Reader *reader)
{
    switch (*reader->at) {
    case '"':
        reader->at++;
        return skip_string(reader);
    case 't':
        return skip_word(reader, "true", 4);
    case 'f':
        return skip_word(reader, "false", 5);
    case 'n':
        return skip_word(reader, "null", 4);
    default:
        return skip_number(reader);
    }
}

/* Step over the name of a member and its colon, whatever is in the name. */
static bool
skip_key(Reader *reader)
{
    return takes(reader, '"') && skip_string(reader) && takes(reader, ':');
}

/* Whether what is nested is a list, by level. */
typedef uint64_t Levels[MOST_LEVELS / 64 + 1];

static inline bool
is_list(const uint64_t *levels, int depth)
{
    return (levels[depth / 64] >> (depth % 64)) & 1;
}

static inline void
enters(uint64_t *levels, int depth, bool list)
{
    uint64_t bit = (uint64_t)1 << (depth % 64);
    levels[depth / 64] = list ? levels[depth / 64] | bit : levels[depth / 64] & ~bit;
}

/* Step over a value that stands here, however nested, as long as that is not too deep. */
bool
skip_value(Reader *reader)
{
    Levels levels;
    int outer = reader->depth, depth = outer;
    for (;;) {
        skip_space(reader);
        if (reader->at >= reader->end) {
            return false;
        }
        byte first = *reader->at;
        if (first == '{' || first == '[') {
            if (++depth > reader->most_depth) {
                return false;
            }
            reader->at++;
            enters(levels, depth, first == '[');
            if (!takes(reader, first == '[' ? ']' : '}')) {
                if (first == '{' && !skip_key(reader)) {
                    return false;
                }
                continue;
            }
            depth--;
        }
        else if (!skip_scalar(reader)) {
            return false;
        }
        /* A value has ended, and so may have what it is in. */
        while (depth > outer && !takes(reader, ',')) {
            if (!takes(reader, is_list(levels, depth) ? ']' : '}')) {
                return false;
            }
            depth--;
        }
        if (depth == outer) {
            return true;
        }
        if (!is_list(levels, depth) && !skip_key(reader)) {
            return false;
        }
    }
}
