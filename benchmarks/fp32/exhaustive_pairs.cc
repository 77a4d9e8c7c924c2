// Runs a two-operand FP16 core in its zero-latency build over pairs of operands against a double reference.
//
// Compiled with -DFUNCTION=<name below>; argv: first pair (a in the upper 16 bits, b in the lower), number of pairs,
// stride. Prints one JSON object. A double has 42 bits more than a result, so that errors are known to 1e-12 ULP.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "core.cc"
#include "exhaustive.h"

namespace {

const double infinity = std::numeric_limits<double>::infinity();

double decoded(uint32_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  double magnitude = exponent == 31 ? (fraction ? NAN : infinity)
                     : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                    : std::ldexp(fraction, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

bool signaling(uint32_t bits) { return (bits & 0x7e00) == 0x7c00 && (bits & 0x1ff); }

struct hypot_f {
  static double exact(double a, double b) { return std::hypot(a, b); }
  static bool nan(uint32_t a, uint32_t b) { return signaling(a) || signaling(b); }
};
struct atan2_f {
  static double exact(double a, double b) { return std::atan2(a, b); }
  static bool nan(uint32_t, uint32_t) { return false; }
};
struct pow_f {
  static double exact(double a, double b) { return std::pow(a, b); }
  static bool nan(uint32_t, uint32_t) { return false; }
};

}  // namespace

int main(int argc, char **argv) {
  const Inputs inputs(argc, argv);
  std::vector<double> values(1 << 16);
  for (uint32_t bits = 0; bits < 1 << 16; ++bits) values[bits] = decoded(bits);
  cxxrtl_design::p_tested top;
  uint64_t rounded = 0, numbers = 0, wrong = 0, missed = 0;
  uint32_t worst_input = 0, first_wrong = 0;
  double worst = 0.5;
  for (uint64_t n = 0; n < inputs.count; ++n) {
    uint32_t pair = inputs[n], a = pair >> 16, b = pair & 0xffff;
    top.p_a.set(a);
    top.p_b.set(b);
    top.eval();
    uint32_t got = top.p_result.get<uint32_t>();
    double y = FUNCTION::nan(a, b) ? NAN : FUNCTION::exact(values[a], values[b]), g = values[got];
    bool good;
    if (std::isnan(y)) {
      good = got == 0x7e00;
    } else {
      ++numbers;
      double error = 0;
      if (std::isinf(y) && g != y) {
        error = infinity;
      } else if (std::isinf(g)) {
        // Half a step beyond the largest number, and further out, infinity is the rounded result.
        error = std::fabs(y) < 65520 ? (65536 - std::fabs(y)) / 32 : 0;
      } else if (y == 0) {
        error = g == 0 ? 0 : infinity;
      } else {
        int exponent = std::ilogb(y);
        error = std::fabs(g - y) / std::ldexp(1.0, (exponent < -14 ? -14 : exponent > 15 ? 15 : exponent) - 10);
      }
      if (std::isnan(g) || std::signbit(g) != std::signbit(y)) error = infinity;
      good = error < 1;
      rounded += error <= 0.5;
      // A result that is a number of the format, and that is not met.
      missed += error > 0 && y != 0 && std::fabs(y) < 65520 && y == std::ldexp(std::nearbyint(std::ldexp(y, 24)), -24) &&
                std::ldexp(y, 10 - std::ilogb(y)) == std::nearbyint(std::ldexp(y, 10 - std::ilogb(y)));
      if (good && error > worst) worst = error, worst_input = pair;
    }
    if (!good && !wrong++) first_wrong = pair;
  }
  std::printf(
      "{\"inputs\": %llu, \"not_nan\": %llu, \"max_ulp\": %.6f, \"max_ulp_input\": \"0x%08x\", "
      "\"correctly_rounded\": %llu, \"wrong\": %llu, \"first_wrong\": \"0x%08x\", \"exact_missed\": %llu}\n",
      (unsigned long long)inputs.count, (unsigned long long)numbers, worst, worst_input, (unsigned long long)rounded,
      (unsigned long long)wrong, first_wrong, (unsigned long long)missed);
  return 0;
}
