// Random and special operands for the FP32 divide and square root with dynamic rounding and flags.
//
// argv: vectors per rounding mode, seed. The reference is the processor's own division and square root.
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core.cc"

#pragma STDC FENV_ACCESS ON

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
    0x00ffffff, 0x01000000, 0x33800000, 0x34000000, 0x3effffff, 0x3f000000, 0x3f7fffff, 0x3f800000, 0x3f800001,
    0x3fc00000, 0x3fffffff, 0x40000000, 0x40400000, 0x40800000, 0x4b800000, 0x4b7fffff, 0x7e7fffff, 0x7e800000,
    0x7effffff, 0x7f000000, 0x7f7ffffe, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff};
const unsigned special_count = sizeof specials / sizeof *specials;

uint32_t operand() {
  uint64_t r = random_bits();
  uint32_t bits = uint32_t(r);
  switch ((r >> 32) & 15) {
    case 0: return specials[(r >> 40) % special_count] | (bits & 0x80000000u);
    case 1: return bits & 0x807fffffu;                                         // subnormal
    case 2: return (bits & 0x807fffffu) | (0x3f800000u + ((r >> 40 & 3) << 23));  // near one
    case 3: return bits & (0xffffffffu << (r >> 40 & 31));                     // few significant bits
    case 4: return bits | (0x007fffffu >> (r >> 40 & 31));                     // a run of ones
    default: return bits;
  }
}

float compute(float a, float b) {
  volatile float x = a, y = b;
#ifdef SQRT
  (void)y;
  volatile float z = __builtin_sqrtf(x);
#else
  volatile float z = x / y;
#endif
  return z;
}

// Nearest with ties away from zero: as to even, unless the result is exactly between two floats.
float ties_away(float a, float b) {
  std::fesetround(FE_TOWARDZERO);
  float low = compute(a, b);
  std::fesetround(FE_TONEAREST);
  std::feclearexcept(FE_ALL_EXCEPT);
  float near = compute(a, b);
#ifdef SQRT
  return near;  // A square root is never half way.
#else
  if (!std::isfinite(near) || !std::isfinite(low) || b == 0) return near;
  float high = as_float(as_bits(low) + 1);
  int raised = std::fetestexcept(FE_ALL_EXCEPT);
  long double middle = ((long double)low + (long double)high) / 2;
  bool tie = middle * (long double)b == (long double)a;
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(raised);
  return tie ? high : near;
#endif
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  uint64_t count = std::strtoull(argv[1], nullptr, 0);
  state = std::strtoull(argv[2], nullptr, 0);
  const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  cxxrtl_design::p_top top;
  for (int rm = 0; rm < 5; ++rm) {
    uint64_t wrong = 0, wrong_flags = 0;
    uint32_t first_a = 0, first_b = 0, first_got = 0, first_expected = 0;
    uint64_t pairs = 4ull * special_count * special_count;
    for (uint64_t n = 0; n < pairs + count; ++n) {
      uint32_t a = operand(), b = operand();
      if (n < pairs) {
        a = specials[n / 4 / special_count] | uint32_t(n & 1) << 31;
        b = specials[n / 4 % special_count] | uint32_t(n & 2) << 30;
      }
      top.p_a.set(a);
#ifndef SQRT
      top.p_b.set(b);
#endif
      top.p_rm.set(uint32_t(rm));
      top.eval();
      uint32_t got = top.p_result.get<uint32_t>();
      unsigned flags = top.p_flags.get<uint32_t>();
      std::fesetround(rm < 4 ? modes[rm] : FE_TONEAREST);
      std::feclearexcept(FE_ALL_EXCEPT);
      float value = rm < 4 ? compute(as_float(a), as_float(b)) : ties_away(as_float(a), as_float(b));
      int raised = std::fetestexcept(FE_ALL_EXCEPT);
      std::fesetround(FE_TONEAREST);
      uint32_t expected = std::isnan(value) ? 0x7fc00000u : as_bits(value);
      // Underflow is left out: the processor detects tininess after rounding, the cores before.
      unsigned expected_flags = (raised & FE_INEXACT ? 1 : 0) | (raised & FE_OVERFLOW ? 4 : 0) |
                                (raised & FE_DIVBYZERO ? 8 : 0) | (raised & FE_INVALID ? 16 : 0);
      wrong_flags += (flags & 29) != expected_flags;
      if (got != expected && !wrong++) first_a = a, first_b = b, first_got = got, first_expected = expected;
    }
    std::printf("{\"rm\": %d, \"vectors\": %llu, \"wrong\": %llu, \"wrong_flags\": %llu, \"first\": \"%08x %08x: %08x, not %08x\"}\n",
                rm, (unsigned long long)(pairs + count), (unsigned long long)wrong, (unsigned long long)wrong_flags,
                first_a, first_b, first_got, first_expected);
  }
  return 0;
}
