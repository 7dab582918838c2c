/* What the parts of the glance share: `_speedups_glance.c` finds where a word may be, `_speedups_words.c` says whether a
 * pattern may match there, and `_speedups_names.c` does so for names. */

#ifndef TIELINE_RECORDINGS_SPEEDUPS_WORDS_H
#define TIELINE_RECORDINGS_SPEEDUPS_WORDS_H

#include "_speedups.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* By what the patterns are known again that the words are of, and the names that are set aside. */
#define WORDS_OF "33d039d1"

enum { LONGEST_NAME = 64, LONGEST_GAP = 64 };

/* Kinds of bytes. */
enum {
    ALNUM = 1,
    WORD = 2,       /* and `_` */
    DASHED = 4,     /* and `-` */
    BASE64 = 8,     /* and both */
    NAME = 16,      /* and `.` */
    VALUE = 32,     /* and `~`, `+`, `/` */
    CAPITAL = 64,   /* no small letters, no signs */
    HEX = 128,
    OPTION = 256,   /* small letters, digits, `-` */
    BLANK = 512,
    OUTSIDE = 1024, /* in no name and no password of a URL */
};

#define GRAM 3
#define SLOTS 512

/* Three bytes in a row of each word are looked for: which may stand there, and where each of them is known again.
 * A bit of `low` and `high` is one of eight groups of words, by the lower and the upper half of a byte. */
typedef struct {
    uint8_t low[GRAM][16], high[GRAM][16];
    /* The same by the whole byte. */
    uint8_t whole[GRAM][256];
    uint8_t slots[SLOTS];
    uint16_t kinds[256];
} Words;

/* Bytes that are looked at, and what was found out about them on the way, so that no byte is passed over often. */
typedef struct {
    const uint8_t *data;
    Py_ssize_t size;
    /* Whoever reads on from `from` or later comes to the end of a string at `to`, and nothing has its name there. */
    Py_ssize_t string_from, string_to;
    /* Nor is there a quote or a backslash from `from` to `to`. */
    Py_ssize_t plain_from, plain_to;
} Text;

/* Parts of patterns */

static inline bool
is_of(const Words *words, const Text *text, Py_ssize_t at, unsigned kind)
{
    return at >= 0 && at < text->size && (words->kinds[text->data[at]] & kind);
}

static inline bool
is_byte(const Text *text, Py_ssize_t at, char byte)
{
    return at >= 0 && at < text->size && text->data[at] == (uint8_t)byte;
}

/* Whether a text, which is in small letters for `any_case`, stands at `at`. */
static inline bool
stands(const Text *text, Py_ssize_t at, const char *what, size_t length, bool any_case)
{
    if (at < 0 || text->size - at < (Py_ssize_t)length) {
        return false;
    }
    const uint8_t *data = text->data + at;
    if (!any_case) {
        return memcmp(data, what, length) == 0;
    }
    for (size_t place = 0; place < length; place++) {
        if ((data[place] | 0x20) != (uint8_t)what[place]) {
            return false;
        }
    }
    return true;
}

/* Where bytes of a kind end; -1 where that is farther than `most`. */
static inline Py_ssize_t
past(const Words *words, const Text *text, Py_ssize_t at, unsigned kind, Py_ssize_t most)
{
    Py_ssize_t end = at + most;
    while (is_of(words, text, at, kind)) {
        if (at++ == end) {
            return -1;
        }
    }
    return at;
}

static inline bool
has(const Words *words, const Text *text, Py_ssize_t at, unsigned kind, int count)
{
    for (int place = 0; place < count; place++) {
        if (!is_of(words, text, at + place, kind)) {
            return false;
        }
    }
    return true;
}

void make_words(Words *words);

/* How three bytes are known again: without regard to case, and signs that fall together by that are told apart later. */

static inline uint32_t
folded(const uint8_t *gram)
{
    return ((uint32_t)gram[0] | (uint32_t)gram[1] << 8 | (uint32_t)gram[2] << 16) | 0x202020;
}

static inline unsigned
slot_of(uint32_t gram)
{
    return (gram * 2654435769u) >> 23;
}

/* Whether bytes from `start` to `end`, or beyond, may name something; the same of a word that says secret, and of one that
 * does so behind another one. */
bool is_name(const Words *words, Text *text, Py_ssize_t start, Py_ssize_t end);
bool stem_may_match(const Words *words, Text *text, Py_ssize_t start, Py_ssize_t end);
bool half_may_match(const Words *words, Text *text, Py_ssize_t start, Py_ssize_t end);

/* Whether a pattern may match by the word that has its three bytes at `at`. */
bool word_may_match(const Words *words, Text *text, Py_ssize_t at);

static inline bool
may_match(const Words *words, Text *text, Py_ssize_t at)
{
    return words->slots[slot_of(folded(text->data + at))] && word_may_match(words, text, at);
}

#endif
