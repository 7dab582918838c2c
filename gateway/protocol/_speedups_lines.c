/* The lines of a plain call and its result, under another id, each written in one go. */

#include "_speedups.h"

#define HEAD "{\"jsonrpc\":\"2.0\",\"id\":"
#define CALL ",\"method\":\"tools/call\",\"params\":"
#define RESULT ",\"result\":"
#define TAIL "}\n"
/* A sign and the digits of the greatest number. */
#define MOST_DIGITS 20

static inline char *
put(char *at, const char *text, size_t size)
{
    memcpy(at, text, size);
    return at + size;
}

/* Write a number before `end`, and return where it begins. */
static char *
write_number(char *end, long long number)
{
    unsigned long long left = number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
    do {
        *--end = (char)('0' + left % 10);
        left /= 10;
    } while (left != 0);
    if (number < 0) {
        *--end = '-';
    }
    return end;
}

/* The line with a body under an id, which is given in its digits. */
static PyObject *
written(const char *digits, size_t count, PyObject *given, const char *middle, size_t middle_size)
{
    Py_buffer body;
    if (PyObject_GetBuffer(given, &body, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *made = NULL;
    size_t around = sizeof(HEAD) - 1 + count + middle_size + sizeof(TAIL) - 1;
    if ((size_t)body.len > (size_t)PY_SSIZE_T_MAX - around) {
        PyErr_NoMemory();
    }
    else {
        made = PyBytes_FromStringAndSize(NULL, body.len + (Py_ssize_t)around);
    }
    if (made != NULL) {
        char *at = put(PyBytes_AS_STRING(made), HEAD, sizeof(HEAD) - 1);
        at = put(at, digits, count);
        at = put(at, middle, middle_size);
        at = put(at, body.buf, (size_t)body.len);
        put(at, TAIL, sizeof(TAIL) - 1);
    }
    PyBuffer_Release(&body);
    return made;
}

static PyObject *
line(PyObject *const *args, Py_ssize_t count, const char *middle, size_t middle_size)
{
    int overflow = 0;
    if (count != 2 || !PyLong_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "an id that is a number and a body are needed");
        return NULL;
    }
    long long id = PyLong_AsLongLongAndOverflow(args[0], &overflow);
    if (overflow == 0) {
        char digits[MOST_DIGITS];
        char *number = write_number(digits + MOST_DIGITS, id);
        return written(number, (size_t)(digits + MOST_DIGITS - number), args[1], middle, middle_size);
    }
    /* An id may be any number, though none that we mint is so long. */
    PyObject *text = PyNumber_ToBase(args[0], 10), *made = NULL;
    Py_ssize_t size = 0;
    const char *digits = text != NULL ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
    if (digits != NULL) {
        made = written(digits, (size_t)size, args[1], middle, middle_size);
    }
    Py_XDECREF(text);
    return made;
}

PyObject *
call_line(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    return line(args, count, CALL, sizeof(CALL) - 1);
}

PyObject *
answer_line(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    return line(args, count, RESULT, sizeof(RESULT) - 1);
}
