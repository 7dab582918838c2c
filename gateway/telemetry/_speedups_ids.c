/* The ids of a trace and of its first span: BLAKE2b of 16 and of 8 bytes (RFC 7693) of two short texts, both at once.
 *
 * Owns what these texts are. Each is one block, so that a hash is one round of mixing.
 */

#include "_speedups.h"

#include <string.h>

#if defined(__GNUC__)
/* The same word of both hashes, side by side. */
typedef uint64_t Pair __attribute__((vector_size(16)));
#define PAIR(first, second) ((Pair){first, second})
#define FIRST(pair) ((pair)[0])
#define SECOND(pair) ((pair)[1])
#define HASHES 1
#else
/* A compiler without vectors hashes one after the other. */
typedef uint64_t Pair;
#define PAIR(first, second) (first)
#define FIRST(pair) (pair)
#define HASHES 2
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define WITH_AVX __attribute__((target("avx2")))
#endif

static const uint64_t BEGINNING[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

#define TURN(x, bits) ((x) >> (bits) | (x) << (64 - (bits)))

#define MIX(a, b, c, d, x, y)                                                                     \
    a += b + m[x];                                                                                \
    d = TURN(d ^ a, 32);                                                                          \
    c += d;                                                                                       \
    b = TURN(b ^ c, 24);                                                                          \
    a += b + m[y];                                                                                \
    d = TURN(d ^ a, 16);                                                                          \
    c += d;                                                                                       \
    b = TURN(b ^ c, 63);

#define ROUND(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15)               \
    MIX(v0, v4, v8, v12, m0, m1)                                                                  \
    MIX(v1, v5, v9, v13, m2, m3)                                                                  \
    MIX(v2, v6, v10, v14, m4, m5)                                                                 \
    MIX(v3, v7, v11, v15, m6, m7)                                                                 \
    MIX(v0, v5, v10, v15, m8, m9)                                                                 \
    MIX(v1, v6, v11, v12, m10, m11)                                                               \
    MIX(v2, v7, v8, v13, m12, m13)                                                                \
    MIX(v3, v4, v9, v14, m14, m15)

/* The first two words of the hashes of the blocks `m`, which hold `sizes` bytes, for digests of `widths` bytes. */
#define MIX_ALL                                                                                   \
    const uint64_t *b = BEGINNING;                                                                \
    Pair h0 = b[0] ^ 0x01010000 ^ widths, h1 = PAIR(b[1], b[1]);                                  \
    Pair v0 = h0, v1 = h1, v2 = PAIR(b[2], b[2]), v3 = PAIR(b[3], b[3]);                          \
    Pair v4 = PAIR(b[4], b[4]), v5 = PAIR(b[5], b[5]), v6 = PAIR(b[6], b[6]), v7 = PAIR(b[7], b[7]); \
    Pair v8 = PAIR(b[0], b[0]), v9 = h1, v10 = v2, v11 = v3;                                      \
    Pair v12 = v4 ^ sizes, v13 = v5, v14 = ~v6, v15 = v7;                                         \
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)                                   \
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)                                   \
    ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4)                                   \
    ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8)                                   \
    ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13)                                   \
    ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9)                                   \
    ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11)                                   \
    ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10)                                   \
    ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5)                                   \
    ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0)                                   \
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)                                   \
    ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)                                   \
    out[0] = h0 ^ v0 ^ v8;                                                                        \
    out[1] = h1 ^ v1 ^ v9;

static void
mix_plainly(const Pair m[16], Pair sizes, Pair widths, Pair out[2])
{
    MIX_ALL
}

#if defined(WITH_AVX)
WITH_AVX static void
mix_by_avx(const Pair m[16], Pair sizes, Pair widths, Pair out[2])
{
    MIX_ALL
}
#endif

static void
mix(const Pair m[16], Pair sizes, Pair widths, Pair out[2])
{
#if defined(WITH_AVX)
    if (__builtin_cpu_supports("avx2")) {
        mix_by_avx(m, sizes, widths, out);
        return;
    }
#endif
    mix_plainly(m, sizes, widths, out);
}

static uint64_t
word_of(const unsigned char *at)
{
    /* Compilers make one load of this where they can. */
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24
        | (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
}

static void
write_hex(char *to, uint64_t word)
{
    for (int byte = 0; byte < 8; byte++) {
        *to++ = "0123456789abcdef"[word >> 4 & 15];
        *to++ = "0123456789abcdef"[word & 15];
        word >>= 8;
    }
}

static size_t
begin(unsigned char block[128], const char *what, const char *seed, size_t size)
{
    size_t length = strlen(what);
    memset(block, 0, 128);
    memcpy(block, what, length);
    memcpy(block + length, seed, size);
    block[length + size] = ' ';
    return length + size + 1;
}

/* `size` is LONGEST_SEED at most. */
void
begin_ids(Seeds *seeds, const char *seed, size_t size)
{
    seeds->trace_size = begin(seeds->trace, "trace ", seed, size);
    seeds->span_size = begin(seeds->span, "span ", seed, size);
}

/* `digits` are those of a frame's number, NUMBER_BYTES at most. Writes TRACE_BYTES and SPAN_BYTES. */
void
write_ids(const Seeds *seeds, const char *digits, size_t count, char *trace, char *span)
{
    static const char side[] = " server";
    unsigned char first[128], second[128];
    memcpy(first, seeds->trace, sizeof first);
    memcpy(first + seeds->trace_size, digits, count);
    memcpy(second, seeds->span, sizeof second);
    memcpy(second + seeds->span_size, digits, count);
    memcpy(second + seeds->span_size + count, side, sizeof side - 1);
    size_t first_size = seeds->trace_size + count, second_size = seeds->span_size + count + sizeof side - 1;
    Pair m[16], out[2];
#if HASHES == 1
    for (int at = 0; at < 16; at++) {
        m[at] = PAIR(word_of(first + 8 * at), word_of(second + 8 * at));
    }
    mix(m, PAIR(first_size, second_size), PAIR(TRACE_BYTES / 2, SPAN_BYTES / 2), out);
    write_hex(span, SECOND(out[0]));
#else
    for (int at = 0; at < 16; at++) {
        m[at] = word_of(second + 8 * at);
    }
    mix(m, second_size, SPAN_BYTES / 2, out);
    write_hex(span, out[0]);
    for (int at = 0; at < 16; at++) {
        m[at] = word_of(first + 8 * at);
    }
    mix(m, first_size, TRACE_BYTES / 2, out);
#endif
    write_hex(trace, FIRST(out[0]));
    write_hex(trace + 16, FIRST(out[1]));
}
