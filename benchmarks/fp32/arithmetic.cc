// Random and special operands for FP32 add, subtract, multiply and fused multiply-add with dynamic rounding and flags.
//
// argv: vectors per rounding mode, seed. The reference is the processor's own arithmetic; rounding to nearest with
// ties away, which it lacks, is derived from exact sums and products in double precision.
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core.cc"

namespace {

float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

uint32_t as_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

uint64_t state;

uint64_t random_bits() {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

const uint32_t specials[] = {
    0x00000000, 0x00000001, 0x00000002, 0x00000003, 0x003fffff, 0x00400000, 0x007fffff, 0x00800000, 0x00800001,
    0x00ffffff, 0x01000000, 0x1fffffff, 0x20000000, 0x33800000, 0x34000000, 0x3effffff, 0x3f000000, 0x3f7fffff,
    0x3f800000, 0x3f800001, 0x3fc00000, 0x3fffffff, 0x40000000, 0x4b7fffff, 0x4b800000, 0x5f800000, 0x7e7fffff,
    0x7e800000, 0x7effffff, 0x7f000000, 0x7f7ffffe, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff};
const unsigned special_count = sizeof specials / sizeof *specials;

uint32_t operand() {
  uint64_t r = random_bits();
  uint32_t bits = uint32_t(r);
  switch ((r >> 32) & 15) {
    case 0: return specials[(r >> 40) % special_count] | (bits & 0x80000000u);
    case 1: return bits & 0x807fffffu;                                           // subnormal
    case 2: return (bits & 0x807fffffu) | (0x3f800000u + ((r >> 40 & 3) << 23)); // near one
    case 3: return bits & (0xffffffffu << (r >> 40 & 31));                       // few significant bits
    case 4: return bits | (0x007fffffu >> (r >> 40 & 31));                       // a run of ones
    default: return bits;
  }
}

// An operand whose exponent is near that of another number, so that sums cancel or touch.
uint32_t neighbour(uint32_t other) {
  uint64_t r = random_bits();
  int exponent = int(other >> 23 & 255) + int(r % 61) - 30;
  if (r >> 20 & 1) exponent = int(other >> 23 & 255) + int(r % 5) - 2;
  if (exponent < 0) exponent = 0;
  if (exponent > 254) exponent = 254;
  uint32_t fraction = uint32_t(r >> 32) & 0x7fffffu;
  if (r >> 21 & 1) fraction = (other + int(r >> 22 & 7) - 3) & 0x7fffffu;
  return (uint32_t(r >> 63) << 31) | uint32_t(exponent) << 23 | fraction;
}

float compute(float a, float b, float c) {
  volatile float x = a, y = b, z = c;
  (void)z;
#if defined(ADD)
  volatile float r = x + y;
#elif defined(SUB)
  volatile float r = x - y;
#elif defined(MUL)
  volatile float r = x * y;
#else
  volatile float r = std::fma(float(x), float(y), float(z));
#endif
  return r;
}

// The exact result lies above `low` (its magnitude rounded toward zero): is it at least half a unit above?
// `twice` is low plus half a unit, exact in double; the sign of the rest comes from an exact difference.
bool upper_half(float a, float b, float c, double twice) {
#if defined(ADD)
  double p = a, q = b;
#elif defined(SUB)
  double p = a, q = -double(b);
#elif defined(MUL)
  double p = double(a) * double(b), q = 0;
#else
  double p = double(a) * double(b), q = c;
#endif
  // p + q - twice, exactly: two steps without error, in the order that cancels.
  double big = std::fabs(p) > std::fabs(q) ? p : q, small = std::fabs(p) > std::fabs(q) ? q : p;
  double sum = big + small, rest = small - (sum - big);
  double difference = (sum - twice);
  if (difference == 0) difference = rest;
  return twice > 0 ? difference >= 0 : difference <= 0;
}

float ties_away(float a, float b, float c) {
  std::fesetround(FE_TOWARDZERO);
  float low = compute(a, b, c);
  std::fesetround(FE_TONEAREST);
  std::feclearexcept(FE_ALL_EXCEPT);
  float near = compute(a, b, c);
  int raised = std::fetestexcept(FE_ALL_EXCEPT);
  if ((raised & FE_INEXACT) && std::isfinite(near) && std::isfinite(low)) {
    uint32_t up = as_bits(low) + 1;
    double low_value = low, high_value = as_float(up);
    // A zero that was rounded toward zero keeps the sign of the exact result.
    if (low == 0) high_value = std::signbit(low) ? -0x1p-149 : 0x1p-149;
    if (!std::isfinite(high_value)) high_value = std::signbit(low) ? -0x1p128 : 0x1p128;
    bool upper = upper_half(a, b, c, (low_value + high_value) / 2);
    near = upper ? as_float(up) : low;
  }
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(raised);
  return near;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  uint64_t count = std::strtoull(argv[1], nullptr, 0);
  state = std::strtoull(argv[2], nullptr, 0);
  const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  cxxrtl_design::p_top top;
#ifdef FMA
  const uint64_t third = special_count;
#else
  const uint64_t third = 1;
#endif
  const uint64_t pairs = 8ull * special_count * special_count * third;
  for (int rm = 0; rm < 5; ++rm) {
    uint64_t wrong = 0, wrong_flags = 0;
    uint32_t first[5] = {0, 0, 0, 0, 0};
    for (uint64_t n = 0; n < pairs + count; ++n) {
      uint32_t a, b, c = 0;
      if (n < pairs) {
        a = specials[n / 8 / third % special_count] | uint32_t(n & 1) << 31;
        b = specials[n / 8 / third / special_count] | uint32_t(n & 2) << 30;
        c = specials[n / 8 % third] | uint32_t(n & 4) << 29;
      } else {
        a = operand();
        b = operand();
#if defined(FMA)
        c = n & 1 ? neighbour(as_bits(as_float(a) * as_float(b))) : operand();
#elif !defined(MUL)
        if (n & 1) b = neighbour(a);
#endif
      }
      top.p_a.set(a);
      top.p_b.set(b);
#ifdef FMA
      top.p_c.set(c);
#endif
      top.p_rm.set(uint32_t(rm));
      top.eval();
      uint32_t got = top.p_result.get<uint32_t>();
      unsigned flags = top.p_flags.get<uint32_t>();
      std::fesetround(rm < 4 ? modes[rm] : FE_TONEAREST);
      std::feclearexcept(FE_ALL_EXCEPT);
      float value = rm < 4 ? compute(as_float(a), as_float(b), as_float(c))
                           : ties_away(as_float(a), as_float(b), as_float(c));
      int raised = std::fetestexcept(FE_ALL_EXCEPT);
      std::fesetround(FE_TONEAREST);
      uint32_t expected = std::isnan(value) ? 0x7fc00000u : as_bits(value);
      // Underflow is left out: the processor detects tininess after rounding, the cores before.
      unsigned expected_flags = (raised & FE_INEXACT ? 1 : 0) | (raised & FE_OVERFLOW ? 4 : 0) |
                                (raised & FE_INVALID ? 16 : 0);
#ifdef FMA
      // Whether infinity times zero plus a quiet NaN is invalid is left open by the standard.
      bool open = std::isnan(as_float(c)) && (flags ^ expected_flags) == 16;
#else
      bool open = false;
#endif
      // In ties-away the overflow threshold is that of ties-to-even.
      wrong_flags += (flags & 29) != expected_flags && !open;
      if (got != expected && !wrong++) first[0] = a, first[1] = b, first[2] = c, first[3] = got, first[4] = expected;
    }
    std::printf("{\"rm\": %d, \"vectors\": %llu, \"wrong\": %llu, \"wrong_flags\": %llu, "
                "\"first\": \"%08x %08x %08x: %08x, not %08x\"}\n",
                rm, (unsigned long long)(pairs + count), (unsigned long long)wrong, (unsigned long long)wrong_flags,
                first[0], first[1], first[2], first[3], first[4]);
  }
  return 0;
}
