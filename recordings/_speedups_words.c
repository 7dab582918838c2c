/* The words without which no built-in pattern of a secret matches, and what has to be around each.
 *
 * Owns the words and the shapes of secrets; names that say secret are the business of `_speedups_names.c`. The patterns
 * are those of `patterns.py` with the names of `names.py`, and whatever they match counts here; a test holds that. What
 * goes on for too long counts, too, so that no text takes long to look at.
 */

#include "_speedups_words.h"

typedef enum {
    ALWAYS,
    STEM,   /* of a name that says secret */
    HALF,   /* the second half of such a name */
    BEARER, /* a stem, and before a secret in a header */
    BASIC,  /* only the latter */
    RUN,    /* at a start, with so many bytes of a kind behind it */
    INSIDE, /* the same, anywhere */
    STRIPE,
    SLACK,
    OCEAN,
    SHOP,
    URL,
    ESCAPE,
} Rule;

typedef struct {
    const char *text;
    /* Where the three bytes begin, and the group of words that they are in: chosen so that in code, prose and JSON
     * one place of two hundred is looked at more closely, and none in a run of one byte. */
    uint8_t at, group;
    bool any_case;
    uint8_t rule;
    uint16_t kind;
    uint8_t count;
} Known;

static const Known KNOWN[] = {
    {"token", 2, 6, true, STEM, 0, 0},
    {"authorization", 3, 2, true, STEM, 0, 0},
    {"cookie", 2, 6, true, STEM, 0, 0},
    {"passw", 2, 1, true, STEM, 0, 0},
    {"secret", 1, 2, true, STEM, 0, 0},
    {"credential", 6, 4, true, STEM, 0, 0},
    {"bearer", 0, 6, true, BEARER, 0, 0},
    {"key", 0, 6, true, HALF, 0, 0},
    {"word", 0, 2, true, HALF, 0, 0},
    {"phrase", 0, 7, true, HALF, 0, 0},
    {"code", 0, 0, true, HALF, 0, 0},
    {"basic", 1, 0, true, BASIC, 0, 0},
    {"-----BEGIN ", 5, 6, false, ALWAYS, 0, 0},
    {"eyJ", 0, 4, false, RUN, BASE64, 8},
    {"sk-", 0, 1, false, RUN, BASE64, 20},
    {"ghp_", 0, 7, false, RUN, ALNUM, 20},
    {"gho_", 1, 2, false, RUN, ALNUM, 20},
    {"ghu_", 0, 7, false, RUN, ALNUM, 20},
    {"ghs_", 0, 7, false, RUN, ALNUM, 20},
    {"ghr_", 0, 7, false, RUN, ALNUM, 20},
    {"github_pat_", 4, 5, false, RUN, WORD, 20},
    {"glpat-", 3, 3, false, RUN, BASE64, 16},
    {"gldt-", 2, 3, false, RUN, BASE64, 16},
    {"glrt-", 2, 3, false, RUN, BASE64, 16},
    {"glptt-", 3, 3, false, RUN, BASE64, 16},
    {"glcbt-", 3, 3, false, RUN, BASE64, 16},
    {"glagent-", 5, 3, false, RUN, BASE64, 16},
    {"AKIA", 0, 6, false, RUN, CAPITAL, 16},
    {"ASIA", 1, 4, false, RUN, CAPITAL, 16},
    {"AIza", 0, 3, false, RUN, BASE64, 30},
    {"ya29.", 0, 5, false, RUN, BASE64, 20},
    {"xox", 0, 1, false, SLACK, DASHED, 10},
    {"xapp-", 2, 3, false, RUN, DASHED, 10},
    {"sk_", 0, 5, false, STRIPE, ALNUM, 16},
    {"rk_", 0, 5, false, STRIPE, ALNUM, 16},
    {"whsec_", 3, 2, false, STRIPE, ALNUM, 16},
    {"npm_", 1, 5, false, RUN, ALNUM, 30},
    {"pypi-AgE", 5, 5, false, RUN, BASE64, 20},
    {"hf_", 0, 7, false, RUN, ALNUM, 20},
    {"SG.", 0, 1, false, RUN, BASE64, 16},
    {"_v1_", 1, 5, false, OCEAN, HEX, 32},
    {"shp", 0, 7, false, SHOP, HEX, 16},
    {"lin_api_", 5, 5, false, RUN, ALNUM, 16},
    {"lin_oauth_", 3, 4, false, RUN, ALNUM, 16},
    {"AGE-SECRET-KEY-1", 1, 3, false, INSIDE, CAPITAL, 20},
    {"tskey-", 3, 3, false, RUN, DASHED, 16},
    {"://", 0, 2, false, URL, 0, 0},
    {"\\u00", 1, 5, false, ESCAPE, 0, 0},
};
enum { KNOWN_COUNT = sizeof KNOWN / sizeof KNOWN[0] };

static void
make_kinds(uint16_t kinds[256])
{
    for (int byte = 0; byte < 256; byte++) {
        bool small = byte >= 'a' && byte <= 'z', capital = byte >= 'A' && byte <= 'Z';
        bool digit = byte >= '0' && byte <= '9', alnum = small || capital || digit;
        bool blank = byte == ' ' || byte == '\t' || byte == '\n' || byte == '\f' || byte == '\r';
        unsigned kind = 0;
        kind |= alnum ? ALNUM : 0;
        kind |= alnum || byte == '_' ? WORD : 0;
        kind |= alnum || byte == '-' ? DASHED : 0;
        kind |= alnum || byte == '-' || byte == '_' ? BASE64 : 0;
        kind |= alnum || (byte && strchr("-_.", byte)) ? NAME : 0;
        kind |= alnum || (byte && strchr("-_.~+/", byte)) ? VALUE : 0;
        kind |= capital || digit ? CAPITAL : 0;
        kind |= digit || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F') ? HEX : 0;
        kind |= small || digit || byte == '-' ? OPTION : 0;
        kind |= blank ? BLANK : 0;
        kind |= blank || (byte && strchr("/\"'@\\<>", byte)) ? OUTSIDE : 0;
        kinds[byte] = (uint16_t)kind;
    }
}

void
make_words(Words *words)
{
    memset(words, 0, sizeof *words);
    make_kinds(words->kinds);
    for (int number = 0; number < KNOWN_COUNT; number++) {
        const Known *known = &KNOWN[number];
        const uint8_t *gram = (const uint8_t *)known->text + known->at;
        for (int at = 0; at < GRAM; at++) {
            bool letter = (words->kinds[gram[at]] & ALNUM) && gram[at] >= 'A';
            words->low[at][gram[at] & 15] |= (uint8_t)(1 << known->group);
            words->high[at][gram[at] >> 4] |= (uint8_t)(1 << known->group);
            if (known->any_case && letter) {
                words->high[at][(gram[at] ^ 0x20) >> 4] |= (uint8_t)(1 << known->group);
            }
        }
        unsigned slot = slot_of(folded(gram));
        while (words->slots[slot]) {
            slot = (slot + 1) % SLOTS;
        }
        words->slots[slot] = (uint8_t)(number + 1);
    }
    for (int at = 0; at < GRAM; at++) {
        for (int byte = 0; byte < 256; byte++) {
            words->whole[at][byte] = words->low[at][byte & 15] & words->high[at][byte >> 4];
        }
    }
}

/* Shapes of secrets */

/* What a shape of a secret may begin behind: the start, no letter or digit, or an escaped blank. */
static bool
is_start(const Words *words, const Text *text, Py_ssize_t at)
{
    if (!is_of(words, text, at - 1, ALNUM)) {
        return true;
    }
    return is_byte(text, at - 2, '\\') && memchr("nrtbf", text->data[at - 1], 5) != NULL;
}

static bool
is_header(const Words *words, const Text *text, Py_ssize_t start, Py_ssize_t end)
{
    if (is_of(words, text, start - 1, WORD) || !is_of(words, text, end, BLANK)) {
        return false;
    }
    end = past(words, text, end, BLANK, LONGEST_GAP);
    return end < 0 || has(words, text, end, VALUE, 8);
}

static bool
is_stripe(const Words *words, const Text *text, const Known *known, Py_ssize_t end)
{
    if (stands(text, end, "live_", 5, false) || stands(text, end, "test_", 5, false)) {
        end += 5;
    }
    return has(words, text, end, known->kind, known->count);
}

static bool
is_shop(const Words *words, const Text *text, const Known *known, Py_ssize_t end)
{
    bool told = stands(text, end, "at_", 3, false) || stands(text, end, "ca_", 3, false) ||
                stands(text, end, "pa_", 3, false) || stands(text, end, "ss_", 3, false);
    return told && has(words, text, end + 3, known->kind, known->count);
}

/* `scheme://user:password@`, from its colon on. */
static bool
is_url(const Words *words, const Text *text, Py_ssize_t colon)
{
    if (!is_of(words, text, colon - 1, DASHED) && !is_byte(text, colon - 1, '+') && !is_byte(text, colon - 1, '.')) {
        return false;
    }
    Py_ssize_t at = colon + 3;
    while (at < text->size && text->data[at] != ':' && !is_of(words, text, at, OUTSIDE)) {
        at++;
    }
    if (!is_byte(text, at, ':')) {
        return false;
    }
    Py_ssize_t first = ++at;
    while (at < text->size && !is_of(words, text, at, OUTSIDE)) {
        at++;
    }
    return at > first && is_byte(text, at, '@');
}

/* A letter, a digit, `-` or `_` spelled as an escape, from behind `\u00` on. */
static bool
is_escape(const Words *words, const Text *text, Py_ssize_t at)
{
    if (!has(words, text, at, HEX, 2)) {
        return false;
    }
    uint8_t low = text->data[at + 1] | 0x20;
    switch (text->data[at]) {
    case '2':
        return low == 'd' || low == 'f';
    case '3':
        return text->data[at + 1] <= '9';
    case '4':
    case '6':
        return text->data[at + 1] != '0';
    case '5':
        return text->data[at + 1] <= '9' || low == 'a' || low == 'f';
    case '7':
        return text->data[at + 1] <= '9' || low == 'a';
    default:
        return false;
    }
}

static bool
counts(const Words *words, Text *text, const Known *known, Py_ssize_t start, Py_ssize_t end)
{
    switch ((Rule)known->rule) {
    case ALWAYS:
        return true;
    case STEM:
        return stem_may_match(words, text, start, end);
    case HALF:
        return half_may_match(words, text, start, end);
    case BEARER:
        return is_header(words, text, start, end) || is_name(words, text, start, end);
    case BASIC:
        return is_header(words, text, start, end);
    case RUN:
        return is_start(words, text, start) && has(words, text, end, known->kind, known->count);
    case INSIDE:
        return has(words, text, end, known->kind, known->count);
    case STRIPE:
        return is_start(words, text, start) && is_stripe(words, text, known, end);
    case SLACK:
        return is_start(words, text, start) && end < text->size && memchr("abeoprs", text->data[end], 7) != NULL &&
               is_byte(text, end + 1, '-') && has(words, text, end + 2, known->kind, known->count);
    case OCEAN:
        return stands(text, start - 3, "do", 2, false) && memchr("opr", text->data[start - 1], 3) != NULL &&
               is_start(words, text, start - 3) && has(words, text, end, known->kind, known->count);
    case SHOP:
        return is_start(words, text, start) && is_shop(words, text, known, end);
    case URL:
        return is_url(words, text, start);
    case ESCAPE:
        return is_escape(words, text, end);
    }
    return true;
}

bool
word_may_match(const Words *words, Text *text, Py_ssize_t at)
{
    uint32_t gram = folded(text->data + at);
    for (unsigned slot = slot_of(gram); words->slots[slot]; slot = (slot + 1) % SLOTS) {
        const Known *known = &KNOWN[words->slots[slot] - 1];
        if (folded((const uint8_t *)known->text + known->at) == gram) {
            size_t length = strlen(known->text);
            Py_ssize_t start = at - known->at;
            if (stands(text, start, known->text, length, known->any_case) &&
                counts(words, text, known, start, start + (Py_ssize_t)length)) {
                return true;
            }
        }
    }
    return false;
}
