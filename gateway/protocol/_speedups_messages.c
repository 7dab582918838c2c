/* The messages that nearly all are: a plain call of a tool, and the result of one.
 *
 * Owns their shape: each member once, and no other. Everything else is None, upon which it is read in Python.
 */

#include "_speedups.h"

/* A set of members that have been met. */
enum { VERSION = 1, ID = 2, METHOD = 4, PARAMS = 8, RESULT = 16, NAME = 32, META = 64, ARGUMENTS = 128 };

typedef struct {
    int met;
    long long id;
    Span params;
    Span result;
    Span name;
    Span arguments;
} Message;

static inline bool
meets(Message *message, int member)
{
    if (message->met & member) {
        return false;
    }
    message->met |= member;
    return true;
}

/* Set a reader on a message, which is given with how deep it may nest; false where it is not for us. */
bool
begins(Reader *reader, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_CheckExact(args[0]) || !PyLong_CheckExact(args[1])) {
        return false;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(args[0]);
    if (size > MOST_BYTES) {
        return false;
    }
    int overflow = 0;
    long most = PyLong_AsLongAndOverflow(args[1], &overflow);
    if (overflow > 0 || most > MOST_LEVELS) {
        most = MOST_LEVELS;
    }
    reader->at = (const byte *)PyBytes_AS_STRING(args[0]);
    reader->end = reader->at + size;
    reader->depth = 1;
    reader->most_depth = (int)most;
    return overflow >= 0 && most >= 1;
}

static bool
skip_member(Reader *reader, Span *value)
{
    value->start = reader->at;
    if (!skip_value(reader)) {
        return false;
    }
    value->end = reader->at;
    return true;
}

/* One member of the params; those that nobody asks for may stand there as they like. */
static bool
read_param(Reader *reader, Message *message, Span key)
{
    Span any;
    if (IS(key, "name")) {
        return meets(message, NAME) && read_text(reader, &message->name);
    }
    if (IS(key, "arguments")) {
        return meets(message, ARGUMENTS) && skip_member(reader, &message->arguments);
    }
    if (IS(key, "_meta")) {
        return meets(message, META) && skip_member(reader, &any);
    }
    return !IS(key, "uri") && skip_member(reader, &any);
}

static bool
read_params(Reader *reader, Message *message)
{
    Span key;
    message->params.start = reader->at;
    if (reader->at >= reader->end || *reader->at != '{' || reader->most_depth < 2) {
        return false;
    }
    reader->at++;
    reader->depth++;
    if (!takes(reader, '}')) {
        do {
            if (!read_key(reader, &key) || !read_param(reader, message, key)) {
                return false;
            }
        } while (takes(reader, ','));
        if (!takes(reader, '}')) {
            return false;
        }
    }
    reader->depth--;
    message->params.end = reader->at;
    return true;
}

static bool
read_member(Reader *reader, Message *message, Span key)
{
    Span text;
    switch (size_of(key)) {
    case 2:
        return IS(key, "id") && meets(message, ID) && read_id(reader, &message->id);
    case 6:
        if (IS(key, "params")) {
            return meets(message, PARAMS) && read_params(reader, message);
        }
        if (IS(key, "result")) {
            return meets(message, RESULT) && skip_member(reader, &message->result);
        }
        return IS(key, "method") && meets(message, METHOD) && read_text(reader, &text)
               && IS(text, "tools/call");
    case 7:
        return IS(key, "jsonrpc") && meets(message, VERSION) && read_text(reader, &text) && IS(text, "2.0");
    default:
        return false;
    }
}

static bool
read_message(Reader *reader, Message *message)
{
    Span key;
    message->met = 0;
    if (!takes(reader, '{')) {
        return false;
    }
    do {
        if (!read_key(reader, &key) || !read_member(reader, message, key)) {
            return false;
        }
    } while (takes(reader, ','));
    if (!takes(reader, '}')) {
        return false;
    }
    skip_space(reader);
    return reader->at == reader->end;
}

static bool
holds(PyObject *data, const char *text, size_t size)
{
    const char *at = PyBytes_AS_STRING(data), *end = at + PyBytes_GET_SIZE(data);
    while ((size_t)(end - at) >= size) {
        at = memchr(at, text[0], (size_t)(end - at) - size + 1);
        if (at == NULL) {
            return false;
        }
        if (memcmp(at, text, size) == 0) {
            return true;
        }
        at++;
    }
    return false;
}

#define HOLDS(data, text) holds(data, text, sizeof(text) - 1)

/* Whether a message is a plain call, and says nothing more about itself by its `_meta`. */
static bool
is_call(PyObject *const *args, Py_ssize_t count, Message *message)
{
    Reader reader;
    if (!begins(&reader, args, count) || !read_message(&reader, message)) {
        return false;
    }
    if ((message->met & ~(META | ARGUMENTS)) != (VERSION | ID | METHOD | PARAMS | NAME)) {
        return false;
    }
    /* As `plain_params.says_more` looks for it: anywhere in the message. */
    return !(message->met & META)
           || !(HOLDS(args[0], "\"progressToken\"") || HOLDS(args[0], "io.tieline/lane"));
}

/* A tuple of these, which are let go of; NULL where one of them is. */
static PyObject *
together(PyObject **parts, Py_ssize_t count)
{
    PyObject *all = PyTuple_New(count);
    for (Py_ssize_t number = 0; number < count; number++) {
        if (all != NULL && parts[number] != NULL) {
            PyTuple_SET_ITEM(all, number, parts[number]);
        }
        else {
            Py_XDECREF(parts[number]);
            Py_CLEAR(all);
        }
    }
    return all;
}

static inline PyObject *
bytes_of(Span span)
{
    return PyBytes_FromStringAndSize((const char *)span.start, size_of(span));
}

static inline PyObject *
text_of(Span span)
{
    return PyUnicode_DecodeUTF8((const char *)span.start, size_of(span), NULL);
}

PyObject *
read_call(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Message message;
    if (!is_call(args, count, &message)) {
        Py_RETURN_NONE;
    }
    PyObject *parts[] = {
        PyLong_FromLongLong(message.id), text_of(message.name), bytes_of(message.params), Py_NewRef(Py_None)};
    return together(parts, 4);
}

PyObject *
read_asked(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Message message;
    if (!is_call(args, count, &message)) {
        Py_RETURN_NONE;
    }
    PyObject *parts[] = {
        PyLong_FromLongLong(message.id), text_of(message.name), bytes_of(message.params),
        message.met & ARGUMENTS ? bytes_of(message.arguments) : PyBytes_FromStringAndSize("{}", 2)};
    return together(parts, 4);
}

PyObject *
read_answer(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Reader reader;
    Message message;
    if (!begins(&reader, args, count) || !read_message(&reader, &message)
        || message.met != (VERSION | ID | RESULT)) {
        Py_RETURN_NONE;
    }
    PyObject *parts[] = {PyLong_FromLongLong(message.id), bytes_of(message.result)};
    return together(parts, 2);
}
