/* A glance at bytes before all patterns look at them: whether any of them, or a secret that is known, may be there.
 *
 * Owns the type `Glance`, which is called as the look behind it is, and asks that where it cannot tell. Words are found
 * three bytes at a time, 32 places at once where the processor has AVX2. Long bytes are looked at without the lock
 * of the interpreter.
 */

#include "_speedups_words.h"

#include <stddef.h>
#include <structmember.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_VECTORS 1
#endif

enum { PLACES = 32, WINDOW = PLACES + GRAM - 1, SHIFTS = 4096, LONGEST_SHIFT = 255, LONG = 65536 };

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *otherwise;
    /* A tuple of the forms of secrets that are known. */
    PyObject *forms;
    bool has_vectors;
    Words words;
    /* How far the next place is at which a form may end its first `least` bytes, by the three bytes before. */
    Py_ssize_t least;
    uint8_t shifts[SHIFTS];
} Glance;

/* Words */

static bool
may_hold_word_plainly(const Words *words, Text *text)
{
    const uint8_t *data = text->data;
    for (Py_ssize_t at = 0; at + GRAM <= text->size; at++) {
        if ((words->whole[0][data[at]] & words->whole[1][data[at + 1]] & words->whole[2][data[at + 2]]) &&
            may_match(words, text, at)) {
            return true;
        }
    }
    return false;
}

#ifdef HAS_VECTORS

#define VECTOR __attribute__((target("avx2"), always_inline)) static inline

typedef struct {
    __m256i low[GRAM], high[GRAM];
} Tables;

VECTOR __m256i
groups_by(const Tables *tables, int at, const uint8_t *data)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(data + at));
    __m256i upper = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
    /* A byte beyond ASCII has nothing by its lower half: no word has one. */
    return _mm256_and_si256(_mm256_shuffle_epi8(tables->low[at], bytes),
                            _mm256_shuffle_epi8(tables->high[at], upper));
}

/* At which of 32 places a word may have its three bytes: a bit for each. */
VECTOR uint32_t
places(const Tables *tables, const uint8_t *data)
{
    __m256i groups = _mm256_and_si256(_mm256_and_si256(groups_by(tables, 0, data), groups_by(tables, 1, data)),
                                      groups_by(tables, 2, data));
    if (_mm256_testz_si256(groups, groups)) {
        return 0;
    }
    return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(groups, _mm256_setzero_si256()));
}

static bool
may_match_at(const Words *words, Text *text, Py_ssize_t start, uint32_t at)
{
    for (; at; at &= at - 1) {
        if (may_match(words, text, start + __builtin_ctz(at))) {
            return true;
        }
    }
    return false;
}

__attribute__((target("avx2"))) static bool
may_hold_word(const Words *words, Text *text)
{
    Tables tables;
    for (int at = 0; at < GRAM; at++) {
        tables.low[at] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)words->low[at]));
        tables.high[at] = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)words->high[at]));
    }
    Py_ssize_t start = 0, size = text->size;
    for (; start + WINDOW <= size; start += PLACES) {
        uint32_t found = places(&tables, text->data + start);
        if (found && may_match_at(words, text, start, found)) {
            return true;
        }
    }
    /* The rest, behind nothing that a word has: none has a byte of zero. */
    uint8_t rest[WINDOW] = {0};
    if (start < size) {
        memcpy(rest, text->data + start, (size_t)(size - start));
    }
    uint32_t found = places(&tables, rest);
    return found && may_match_at(words, text, start, found);
}

#endif

/* Forms of known secrets */

static unsigned
shift_of(const uint8_t *gram)
{
    uint32_t three = (uint32_t)gram[0] | (uint32_t)gram[1] << 8 | (uint32_t)gram[2] << 16;
    return (three * 2654435769u) >> 20;
}

/* Set how far to go on by each three bytes: to where the first form that holds them may have its first bytes whole. */
static bool
make_shifts(Glance *self)
{
    Py_ssize_t count = PyTuple_GET_SIZE(self->forms);
    Py_ssize_t least = LONGEST_SHIFT;
    for (Py_ssize_t number = 0; number < count; number++) {
        PyObject *form = PyTuple_GET_ITEM(self->forms, number);
        if (!PyBytes_CheckExact(form) || PyBytes_GET_SIZE(form) <= GRAM) {
            return false;
        }
        least = PyBytes_GET_SIZE(form) < least ? PyBytes_GET_SIZE(form) : least;
    }
    self->least = least;
    memset(self->shifts, (int)(least - GRAM + 1), sizeof self->shifts);
    for (Py_ssize_t number = 0; number < count; number++) {
        const uint8_t *form = (const uint8_t *)PyBytes_AS_STRING(PyTuple_GET_ITEM(self->forms, number));
        for (Py_ssize_t at = 0; at + GRAM <= least; at++) {
            uint8_t *shift = &self->shifts[shift_of(form + at)];
            uint8_t left = (uint8_t)(least - GRAM - at);
            *shift = left < *shift ? left : *shift;
        }
    }
    return true;
}

static bool
holds_form(const Glance *self, const Text *text)
{
    Py_ssize_t count = PyTuple_GET_SIZE(self->forms);
    if (!count) {
        return false;
    }
    for (Py_ssize_t at = self->least - GRAM; at + GRAM <= text->size;) {
        uint8_t shift = self->shifts[shift_of(text->data + at)];
        if (shift) {
            at += shift;
            continue;
        }
        Py_ssize_t start = at - (self->least - GRAM);
        for (Py_ssize_t number = 0; number < count; number++) {
            PyObject *form = PyTuple_GET_ITEM(self->forms, number);
            Py_ssize_t length = PyBytes_GET_SIZE(form);
            if (text->size - start >= length &&
                memcmp(PyBytes_AS_STRING(form), text->data + start, (size_t)length) == 0) {
                return true;
            }
        }
        at++;
    }
    return false;
}

/* Both */

static bool
may_tell(const Glance *self, const uint8_t *data, Py_ssize_t size)
{
    Text text = {data, size, 1, 0, 1, 0};
#ifdef HAS_VECTORS
    bool found = self->has_vectors ? may_hold_word(&self->words, &text) : may_hold_word_plainly(&self->words, &text);
#else
    bool found = may_hold_word_plainly(&self->words, &text);
#endif
    return found || holds_form(self, &text);
}

static PyObject *
glance_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Glance *self = (Glance *)callable;
    if (PyVectorcall_NARGS(nargsf) == 1 && names == NULL && PyBytes_CheckExact(args[0])) {
        const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(args[0]);
        Py_ssize_t size = PyBytes_GET_SIZE(args[0]);
        bool found;
        if (size < LONG) {
            found = may_tell(self, data, size);
        }
        else {
            Py_BEGIN_ALLOW_THREADS
            found = may_tell(self, data, size);
            Py_END_ALLOW_THREADS
        }
        if (!found) {
            Py_RETURN_NONE;
        }
    }
    if (self->otherwise == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a glance that is being collected looks at nothing");
        return NULL;
    }
    return PyObject_Vectorcall(self->otherwise, args, nargsf, names);
}

/* The type */

static PyObject *
glance_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"otherwise", "known", "plainly", NULL};
    PyObject *otherwise, *known;
    int plainly = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$p", names, &otherwise, &known, &plainly)) {
        return NULL;
    }
    Glance *self = (Glance *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->call = glance_call;
    self->otherwise = Py_NewRef(otherwise);
    self->forms = PySequence_Tuple(known);
    if (self->forms == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    if (!make_shifts(self)) {
        Py_DECREF(self);
        PyErr_SetString(PyExc_ValueError, "a known form is no bytes, or too short");
        return NULL;
    }
    make_words(&self->words);
#ifdef HAS_VECTORS
    self->has_vectors = !plainly && __builtin_cpu_supports("avx2");
#endif
    return (PyObject *)self;
}

static int
glance_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Glance *)self)->otherwise);
    return 0;
}

static int
glance_clear(PyObject *self)
{
    Py_CLEAR(((Glance *)self)->otherwise);
    return 0;
}

static void
glance_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(((Glance *)self)->otherwise);
    Py_XDECREF(((Glance *)self)->forms);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef glance_members[] = {
    {"otherwise", T_OBJECT_EX, offsetof(Glance, otherwise), READONLY, "What is asked where a glance cannot tell."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Glance, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot glance_slots[] = {
    {Py_tp_doc, "A look that asks another one where it cannot say that bytes hold no secret."},
    {Py_tp_new, glance_new},
    {Py_tp_dealloc, glance_free},
    {Py_tp_traverse, glance_traverse},
    {Py_tp_clear, glance_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, glance_members},
    {0, NULL},
};

static PyType_Spec glance_spec = {
    .name = "recordings._speedups.Glance",
    .basicsize = sizeof(Glance),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = glance_slots,
};

int
add_glance(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &glance_spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int failed = PyModule_AddObjectRef(module, "Glance", type) < 0 ||
                 PyModule_AddStringConstant(module, "PATTERNS", WORDS_OF) < 0;
    Py_DECREF(type);
    return failed ? -1 : 0;
}
