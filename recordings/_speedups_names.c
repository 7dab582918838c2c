/* Names that say secret: what has to be around a part of one, so that it may be the name of something.
 *
 * Owns what `patterns.prefilter` says of names. Whatever its patterns match counts here. No byte is passed over more than
 * twice for the ends of strings, and anything else is looked at for some bytes only.
 */

#include "_speedups_words.h"

static const char *const FIRST_HALVES[] = {"pass", "api", "private", "access", "signing", "encryption",
                                           "shared", "account", "master", "ssh"};

/* Names that the redactor takes out of the bytes before it looks at them again. Where one is all of a string, what is
 * around it means the same without it; elsewhere there may be something to find only then. */
static const char *const HARMLESS[] = {"progressToken", "cancel_token", "maxTokens", "max_tokens", "inputTokens",
                                       "outputTokens", "input_tokens", "output_tokens", "total_tokens",
                                       "nextPageToken", "pageToken"};

static Py_ssize_t
past_backslashes(const Text *text, Py_ssize_t at)
{
    Py_ssize_t end = at + LONGEST_GAP;
    while (is_byte(text, at, '\\')) {
        if (at++ == end) {
            return -1;
        }
    }
    return at;
}

/* A name that says secret, from `start` to `end` or beyond, and what it may be the name of. */

static bool
is_followed_by(const Words *words, const Text *text, Py_ssize_t quote, const char *signs)
{
    Py_ssize_t at = past(words, text, quote + 1, BLANK, LONGEST_GAP);
    return at < 0 || is_byte(text, at, signs[0]) || (signs[1] && is_byte(text, at, signs[1]));
}

/* Up to the end of the string that it is in, and a colon. */
static bool
names_member(const Words *words, Text *text, Py_ssize_t end)
{
    if (end < text->string_from || end > text->string_to) {
        Py_ssize_t at = end;
        while (at < text->size && text->data[at] != '"') {
            if (text->data[at] == '\\') {
                at++;
                if (at >= text->size || text->data[at] == '\n') {
                    break;
                }
            }
            at++;
        }
        if (is_byte(text, at, '"') && is_followed_by(words, text, at, ":")) {
            return true;
        }
        /* A later name begins between two characters, too: its last two bytes are letters. */
        text->string_from = end;
        text->string_to = at;
    }
    if (end < text->plain_from || end > text->plain_to) {
        Py_ssize_t at = end;
        while (at < text->size && text->data[at] != '"' && text->data[at] != '\\') {
            at++;
        }
        text->plain_from = end;
        text->plain_to = at;
    }
    if (!is_byte(text, text->plain_to, '\\')) {
        return false;
    }
    Py_ssize_t quote = past_backslashes(text, text->plain_to);
    return quote < 0 || (is_byte(text, quote, '"') && is_followed_by(words, text, quote, ":"));
}

/* `name: value`, `name=value`, or a string of a list that ends in the name. */
static bool
names_value(const Words *words, const Text *text, Py_ssize_t end)
{
    Py_ssize_t at = past(words, text, end, NAME, LONGEST_NAME);
    at = at < 0 ? at : past_backslashes(text, at);
    if (at < 0 || (is_byte(text, at, '"') && is_followed_by(words, text, at, ",}"))) {
        return true;
    }
    if (is_byte(text, at, '"') || is_byte(text, at, '\'')) {
        at++;
    }
    for (Py_ssize_t last = at + LONGEST_GAP; is_byte(text, at, ' ') || is_byte(text, at, '\t'); at++) {
        if (at == last) {
            return true;
        }
    }
    return is_byte(text, at, ':') || is_byte(text, at, '=');
}

/* `--name `. */
static bool
names_option(const Words *words, const Text *text, Py_ssize_t start, Py_ssize_t end)
{
    Py_ssize_t at = past(words, text, end, OPTION, LONGEST_NAME);
    if (at >= 0 && !is_byte(text, at, ' ') && !is_byte(text, at, '\t')) {
        return false;
    }
    for (Py_ssize_t first = start - LONGEST_NAME; is_of(words, text, start - 1, OPTION); start--) {
        if (start == first || is_byte(text, start - 1, '-')) {
            return true;
        }
    }
    return false;
}

bool
is_name(const Words *words, Text *text, Py_ssize_t start, Py_ssize_t end)
{
    return names_value(words, text, end) || names_option(words, text, start, end) || names_member(words, text, end);
}

/* The harmless name that the `token` at `at` is of, and where that begins; NULL where it is of none. */
static const char *
harmless_at(const Text *text, Py_ssize_t at, Py_ssize_t *start)
{
    for (size_t number = 0; number < sizeof HARMLESS / sizeof HARMLESS[0]; number++) {
        const char *name = HARMLESS[number];
        size_t length = strlen(name);
        /* It ends in `token` or `tokens`. */
        *start = at - (Py_ssize_t)(length - (name[length - 1] == 's' ? 6 : 5));
        if (stands(text, *start, name, length, false)) {
            return name;
        }
    }
    return NULL;
}

bool
stem_may_match(const Words *words, Text *text, Py_ssize_t start, Py_ssize_t end)
{
    Py_ssize_t first;
    const char *harmless = harmless_at(text, start, &first);
    if (harmless == NULL) {
        return is_name(words, text, start, end);
    }
    Py_ssize_t after = first + (Py_ssize_t)strlen(harmless);
    return !is_byte(text, first - 1, '"') || !(is_byte(text, after, '"') || is_byte(text, after, '\\'));
}

bool
half_may_match(const Words *words, Text *text, Py_ssize_t start, Py_ssize_t end)
{
    Py_ssize_t until = start;
    if (until > 0 && !is_of(words, text, until - 1, ALNUM) && !is_byte(text, until - 1, '"') &&
        !is_byte(text, until - 1, '\\')) {
        until--;
    }
    for (size_t number = 0; number < sizeof FIRST_HALVES / sizeof FIRST_HALVES[0]; number++) {
        size_t length = strlen(FIRST_HALVES[number]);
        Py_ssize_t first = until - (Py_ssize_t)length;
        if (stands(text, first, FIRST_HALVES[number], length, true)) {
            return is_name(words, text, first, end);
        }
    }
    return false;
}

