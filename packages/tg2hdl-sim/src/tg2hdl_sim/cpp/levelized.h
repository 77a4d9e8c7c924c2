// Types and operators of generated models.  LANES inputs are simulated side by side, VECTOR of them in a vector.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// GCC 12 takes a function whose stores have addresses of three registers for one without effects, and drops its calls.
#define NOINLINE __attribute__((noinline, noipa))
// Multiplexers of a small model are mostly control, which branches predict well.
#if defined(__GNUC__) && !defined(__clang__)
#define BRANCHES __attribute__((optimize("no-if-conversion", "no-if-conversion2", "no-ssa-phiopt")))
#else
#define BRANCHES
#endif

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

static inline u32 min32(u32 by) { return by < 32 ? by : 31; }
static inline u32 min64(u32 by) { return by < 64 ? by : 63; }
static inline u32 parity32(u32 x) { return (u32)__builtin_parity(x); }
static inline u32 parity64(u64 x) { return (u32)__builtin_parityll(x); }

// Division towards minus infinity; by zero it is 0.
#define DIVIDE(B) \
    static inline u##B udiv##B(u##B a, u##B b) { return b ? a / b : 0; } \
    static inline u##B umod##B(u##B a, u##B b) { return b ? a % b : 0; } \
    static inline u##B sdiv##B(u##B x, u##B y) { \
        const i##B a = (i##B)x, b = (i##B)y; \
        if (!b) return 0; \
        if (b == -1) return 0 - x; \
        return (u##B)(a / b - (a % b != 0 && (a < 0) != (b < 0))); \
    } \
    static inline u##B smod##B(u##B x, u##B y) { \
        const i##B a = (i##B)x, b = (i##B)y; \
        if (!b || b == -1) return 0; \
        const i##B r = a % b; \
        return (u##B)(r != 0 && (r < 0) != (b < 0) ? r + b : r); \
    }
DIVIDE(32)
DIVIDE(64)

// Word `which` of the quotient or the remainder of two numbers of n words, one after the other.
static NOINLINE u64 wide_div(int n, int which, int remainder, const u64 *words) {
    const u64 *b = words + n;
    u64 q[32] = {0}, r[33] = {0}, any = 0;
    for (int j = 0; j < n; j++) any |= b[j];
    if (!any) return 0;
    for (int bit = 64 * n - 1; bit >= 0; bit--) {
        for (int j = n; j > 0; j--) r[j] = r[j] << 1 | r[j - 1] >> 63;
        r[0] = r[0] << 1 | (words[bit / 64] >> (bit % 64) & 1);
        int less = 0;
        if (!r[n])
            for (int j = n - 1; j >= 0; j--)
                if (r[j] != b[j]) {
                    less = r[j] < b[j];
                    break;
                }
        if (less) continue;
        u64 borrow = 0;
        for (int j = 0; j <= n; j++) {
            const u64 y = j < n ? b[j] : 0, d = r[j] - y - borrow;
            borrow = r[j] < y || (r[j] == y && borrow);
            r[j] = d;
        }
        q[bit / 64] |= (u64)1 << (bit % 64);
    }
    return remainder ? r[which] : q[which];
}

#ifdef VECTOR
#elif defined(__AVX512BW__) && defined(BATCH)
#define VECTOR 16
#elif defined(__AVX512BW__) || defined(__AVX2__)
#define VECTOR 8
#else
#define VECTOR 4
#endif
#define UNROLLED _Pragma("GCC unroll 16")
#define CHUNKS (LANES / VECTOR)
#define PADDED(N) (((N) + VECTOR - 1) / VECTOR * VECTOR)

#define VECTORS(B) \
    typedef u##B vu##B __attribute__((vector_size(VECTOR * B / 8))); \
    typedef i##B vi##B __attribute__((vector_size(VECTOR * B / 8))); \
    static inline vu##B bc##B(u##B x) { return x - (vu##B){0}; } \
    static inline vu##B sel##B(vu##B m, vu##B a, vu##B b) { return (m & a) | (~m & b); } \
    static inline vu##B minv##B(vu##B by) { \
        const vu##B inside = (vu##B)(by < B); \
        return sel##B(inside, by, bc##B(B - 1)); \
    } \
    DIVIDE_EACH(udiv, B) DIVIDE_EACH(umod, B) DIVIDE_EACH(sdiv, B) DIVIDE_EACH(smod, B)
#define DIVIDE_EACH(OP, B) \
    static inline vu##B OP##v##B(vu##B a, vu##B b) { \
        vu##B r; \
        for (int l = 0; l < VECTOR; l++) r[l] = OP##B(a[l], b[l]); \
        return r; \
    }
VECTORS(32)
VECTORS(64)

// Short elements, which only the state has.
#define SHORT(B) \
    typedef u##B vu##B __attribute__((vector_size(VECTOR * B / 8))); \
    typedef i##B vi##B __attribute__((vector_size(VECTOR * B / 8))); \
    static inline vu##B bc##B(u##B x) { return x - (vu##B){0}; }
SHORT(8)
SHORT(16)
// GCC takes these conversions apart element by element, so that the instruction is named where there is one.  Clang
// does not, and refuses to put 8 bytes in a vector register.
#if defined(__AVX2__) && !defined(__clang__) && (VECTOR == 8 || defined(__AVX512BW__))
#define CONVERSION(NAME, FROM, TO, INSTRUCTION) \
    static inline TO NAME(FROM x) { \
        TO r; \
        __asm__(INSTRUCTION " %1, %0" : "=v"(r) : "vm"(x)); \
        return r; \
    }
CONVERSION(widen_vu8, vu8, vu32, "vpmovzxbd")
CONVERSION(widen_vi8, vi8, vu32, "vpmovsxbd")
CONVERSION(widen_vu16, vu16, vu32, "vpmovzxwd")
CONVERSION(widen_vi16, vi16, vu32, "vpmovsxwd")
#else
static inline vu32 widen_vu8(vu8 x) { return __builtin_convertvector(x, vu32); }
static inline vu32 widen_vi8(vi8 x) { return (vu32)__builtin_convertvector(x, vi32); }
static inline vu32 widen_vu16(vu16 x) { return __builtin_convertvector(x, vu32); }
static inline vu32 widen_vi16(vi16 x) { return (vu32)__builtin_convertvector(x, vi32); }
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__) && !defined(__clang__) && VECTOR >= 8
#define SHORTENING(NAME, TO, INSTRUCTION) \
    static inline TO NAME(vu32 x) { \
        TO r; \
        __asm__(INSTRUCTION " %1, %0" : "=v"(r) : "v"(x)); \
        return r; \
    }
SHORTENING(narrow8, vu8, "vpmovdb")
SHORTENING(narrow16, vu16, "vpmovdw")
#elif defined(__AVX2__) && !defined(__clang__) && VECTOR == 8
#define SHORTENING(NAME, TO, PLACES, JOIN) \
    static inline TO NAME(vu32 x) { \
        const vi8_32 places = PLACES; \
        TO r, high; \
        __asm__("vpshufb %3, %2, %t0; vextracti128 $1, %t0, %x1; " JOIN " %x1, %x0, %x0" \
                : "=&x"(r), "=&x"(high) : "x"(x), "x"(places)); \
        return r; \
    }
typedef i8 vi8_32 __attribute__((vector_size(32)));
#define TWICE(...) {__VA_ARGS__, __VA_ARGS__}
SHORTENING(narrow8, vu8, TWICE(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1), "vpunpckldq")
SHORTENING(narrow16, vu16, TWICE(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1), "vpunpcklqdq")
#else
static inline vu8 narrow8(vu32 x) { return __builtin_convertvector(x, vu8); }
static inline vu16 narrow16(vu32 x) { return __builtin_convertvector(x, vu16); }
#endif

static inline vu32 parityv32(vu32 x) {
    x ^= x >> 16;
    x ^= x >> 8;
    x ^= x >> 4;
    x ^= x >> 2;
    return x ^ x >> 1;
}
static inline vu32 parityv64(vu64 x) { return parityv32(__builtin_convertvector(x ^ x >> 32, vu32)); }

static NOINLINE vu64 wide_divv(int n, int which, int remainder, const vu64 *words) {
    vu64 r;
    for (int l = 0; l < VECTOR; l++) {
        u64 one[64];
        for (int j = 0; j < 2 * n; j++) one[j] = words[j][l];
        r[l] = wide_div(n, which, remainder, one);
    }
    return r;
}

// An element of a memory for each lane l_, at its own address at_.
#define GATHER(B, ELEMENT, WHERE) __extension__({ \
    const vu32 where_ = (WHERE); \
    vu##B found_; \
    UNROLLED for (int l_ = 0; l_ < VECTOR; l_++) { \
        const u32 at_ = where_[l_]; \
        found_[l_] = (u##B)(ELEMENT); \
    } \
    found_; \
})
#define GATHER32(ELEMENT, WHERE) GATHER(32, ELEMENT, WHERE)
#define GATHER64(ELEMENT, WHERE) GATHER(64, ELEMENT, WHERE)

// Lanes of one input in a vector.  Arrays are padded to whole vectors; what is beyond the lanes is never used.
#define UNALIGNED(T) typedef T v##T##_at __attribute__((vector_size(VECTOR * sizeof(T)), aligned(1), may_alias));
UNALIGNED(u8) UNALIGNED(i8) UNALIGNED(u16) UNALIGNED(i16) UNALIGNED(u32) UNALIGNED(i32) UNALIGNED(u64) UNALIGNED(i64)
#define LOAD32(FIRST) ((vu32)*(const vu32_at *)&(FIRST))
#define LOAD64(FIRST) ((vu64)*(const vu64_at *)&(FIRST))
#define STORE32(FIRST, VALUE) (*(vu32_at *)&(FIRST) = (vu32_at)(VALUE))
#define STORE64(FIRST, VALUE) (*(vu64_at *)&(FIRST) = (vu64_at)(VALUE))
#define STORE_u32_32 STORE32
#define STORE_i32_32 STORE32
#define STORE_u64_64 STORE64
#define STORE_i64_64 STORE64
#define STORE_u8_32(FIRST, VALUE) (*(vu8_at *)&(FIRST) = (vu8_at)narrow8(VALUE))
#define STORE_i8_32 STORE_u8_32
#define STORE_u16_32(FIRST, VALUE) (*(vu16_at *)&(FIRST) = (vu16_at)narrow16(VALUE))
#define STORE_i16_32 STORE_u16_32
#define LOAD_u8_32(FIRST) widen_vu8((vu8)*(const vu8_at *)&(FIRST))
#define LOAD_i8_32(FIRST) widen_vi8((vi8)*(const vi8_at *)&(FIRST))
#define LOAD_u16_32(FIRST) widen_vu16((vu16)*(const vu16_at *)&(FIRST))
#define LOAD_i16_32(FIRST) widen_vi16((vi16)*(const vi16_at *)&(FIRST))
#define LOAD_u32_32(FIRST) LOAD32(FIRST)
#define LOAD_i32_32(FIRST) LOAD32(FIRST)
#define LOAD_u64_64(FIRST) LOAD64(FIRST)
#define LOAD_i64_64(FIRST) LOAD64(FIRST)

// An element for each lane from i on; ELEMENT is an expression in i, and in the address at_ of the lane.
#define PICK(B, ELEMENT) __extension__({ \
    vu##B found_; \
    const int first_ = i; \
    UNROLLED for (int l_ = 0; l_ < VECTOR; l_++) { \
        const int i = first_ + l_; \
        found_[l_] = (u##B)(ELEMENT); \
    } \
    found_; \
})
#define PICK_AT(B, ELEMENT, WHERE) __extension__({ \
    const vu32 where_ = (WHERE); \
    vu##B found_; \
    const int first_ = i; \
    UNROLLED for (int l_ = 0; l_ < VECTOR; l_++) { \
        const int i = first_ + l_; \
        const u32 at_ = where_[l_]; \
        found_[l_] = (u##B)(ELEMENT); \
    } \
    found_; \
})
#define PICK32(ELEMENT) PICK(32, ELEMENT)
#define PICK64(ELEMENT) PICK(64, ELEMENT)
#define PICK_AT32(ELEMENT, WHERE) PICK_AT(32, ELEMENT, WHERE)
#define PICK_AT64(ELEMENT, WHERE) PICK_AT(64, ELEMENT, WHERE)

typedef struct Field {
    size_t offset, bytes, stride, unused;
    u32 width, low, is_signed, varies;
} Field;
