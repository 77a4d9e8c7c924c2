// Runs a one-operand FP32 core whose result is defined exactly over a range of inputs, in its zero-latency build.
//
// Compiled with -DEXPECTED=<expression in a, the operand's bits> and -DMODE=<FE_ rounding of the processor>;
// argv: first input, number of inputs, stride. Prints one JSON object.
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "core.cc"
#include "exhaustive.h"

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
  return value != value ? 0x7fc00000u : bits;
}

[[maybe_unused]] uint64_t square_root(uint32_t a) { return as_bits(__builtin_sqrtf(as_float(a))); }

// To an integral value in the rounding of the processor.
[[maybe_unused]] uint64_t integral(uint32_t a) { return as_bits(std::nearbyint(as_float(a))); }
[[maybe_unused]] uint64_t integral_away(uint32_t a) { return as_bits(std::round(as_float(a))); }

uint64_t cut(uint64_t value, int width) { return width < 64 ? value & ((uint64_t(1) << width) - 1) : value; }

// To an integer in the rounding of the processor, modulo 2^width.
[[maybe_unused]] uint64_t wrapped(uint32_t a, int width) {
  double x = std::nearbyint(double(as_float(a)));
  // From 2^120 on a float is a multiple of 2^96.
  if (!(std::fabs(x) < 0x1p120)) return 0;
  return cut(uint64_t((__int128)x), width);
}

[[maybe_unused]] uint64_t saturated(uint32_t a, int width, bool is_signed) {
  double x = std::nearbyint(double(as_float(a)));
  if (std::isnan(x)) return 0;
  double above = std::ldexp(1.0, width - is_signed), below = is_signed ? -above : 0;
  if (x >= above) return cut(~uint64_t(0), width - is_signed);
  if (x <= below) return is_signed ? uint64_t(1) << (width - 1) : 0;
  return cut(uint64_t((__int128)x), width);
}

[[maybe_unused]] uint64_t from_signed(uint32_t a) { return as_bits(float(int32_t(a))); }
[[maybe_unused]] uint64_t from_unsigned(uint32_t a) { return as_bits(float(a)); }

// To a narrower format: a whole multiple of its unit in the last place, in the rounding of the processor.
[[maybe_unused]] uint64_t narrowed(uint32_t a, int exponent, int fraction, bool finite) {
  double x = as_float(a);
  int bias = (1 << (exponent - 1)) - 1;
  uint64_t sign = uint64_t(a >> 31) << (exponent + fraction);
  uint64_t ones = (uint64_t(1) << (exponent + fraction)) - 1;
  uint64_t infinity = ones >> fraction << fraction;
  uint64_t nan = finite ? ones : infinity | uint64_t(1) << (fraction - 1);
  if (std::isnan(x)) return nan;
  if (std::isinf(x)) return finite ? nan : sign | infinity;
  if (x == 0) return sign;
  int top;
  std::frexp(x, &top);
  if (top - 1 < 1 - bias) top = 2 - bias;
  // Counted in units, a carry into the next binade carries into the exponent field.
  uint64_t units = uint64_t(std::fabs(std::nearbyint(std::ldexp(x, fraction - (top - 1)))));
  uint64_t pattern = (uint64_t(top - 2 + bias) << fraction) + units;
  if (top == 2 - bias && units < uint64_t(1) << fraction) pattern = units;
  if (finite) return pattern >= ones ? nan : sign | pattern;
  return sign | (pattern > infinity ? infinity : pattern);
}

}  // namespace

int main(int argc, char **argv) {
  const Inputs inputs(argc, argv);
  cxxrtl_design::p_tested top;
  uint64_t wrong = 0, first_got = 0, first_expected = 0;
  uint32_t first_wrong = 0;
  std::fesetround(MODE);
  for (uint64_t n = 0; n < inputs.count; ++n) {
    uint32_t a = inputs[n];
    top.p_a.set(a);
    top.eval();
    uint64_t got = top.p_result.get<uint64_t>();
    uint64_t expected = EXPECTED;
    if (got != expected && !wrong++) first_wrong = a, first_got = got, first_expected = expected;
  }
  std::printf("{\"inputs\": %llu, \"wrong\": %llu, \"first\": \"%08x: %llx, not %llx\"}\n", (unsigned long long)inputs.count,
              (unsigned long long)wrong, first_wrong, (unsigned long long)first_got,
              (unsigned long long)first_expected);
  return 0;
}
