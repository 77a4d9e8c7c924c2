// Runs a one-operand FP32 core in its zero-latency build over a range of inputs against a double reference.
//
// Compiled with -DFUNCTION=<name below>; argv: first input, number of inputs, stride. Prints one JSON object.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>

#include "core.cc"
#include "exhaustive.h"

namespace {

double as_double(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

uint32_t as_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

const long double two_pi = 6.283185307179586476925286766559L;

// In double precision, and in extended precision where that is not enough.
#define REFERENCE(name, in_double, in_extended) \
  struct name { \
    static double near(double x) { return in_double; } \
    static long double close(double x) { return in_extended; } \
  };
REFERENCE(exp2_f, std::exp2(x), exp2l(x))
REFERENCE(log2_f, std::log2(x), log2l(x))
REFERENCE(reciprocal_f, 1 / x, 1 / (long double)x)
REFERENCE(rsqrt_f, 1 / std::sqrt(x), 1 / sqrtl(x))
REFERENCE(sin_f, std::sin(x), sinl(x))
REFERENCE(exp_f, std::exp(x), expl(x))
REFERENCE(exp10_f, exp10(x), exp10l(x))
REFERENCE(ln_f, std::log(x), logl(x))
REFERENCE(log10_f, std::log10(x), log10l(x))
REFERENCE(tanh_f, std::tanh(x), tanhl(x))
REFERENCE(sigmoid_f, 1 / (1 + std::exp(-x)), 1 / (1 + expl(-(long double)x)))
REFERENCE(erf_f, std::erf(x), erfl(x))
REFERENCE(atan_f, std::atan(x), atanl(x))
REFERENCE(cos_f, std::cos(x), cosl(x))

// Turns are reduced exactly before the product with 2 pi.
double turns(double x) { return x - std::nearbyint(2 * x) / 2; }
double odd_half(double x) { return std::fmod(std::nearbyint(2 * x), 2) != 0 ? -1.0 : 1.0; }

struct sinpi2_f {
  static double near(double x) { return (double)close(x); }
  static long double close(double x) {
    if (!(std::fabs(x) < 9e15)) return std::isfinite(x) ? std::copysign(0.0, x) : NAN;
    double r = turns(x);
    if (r == 0) return std::copysign(0.0, x);
    return odd_half(x) * sinl(two_pi * r);
  }
};

// The double result rounds to the same float as the exact one, unless it is this near to a midpoint.
bool doubtful(double y) {
  uint64_t bits;
  std::memcpy(&bits, &y, 8);
  int64_t below = int64_t(bits & 0x1fffffff) - 0x10000000;
  return (below > -16 && below < 16) || std::fabs(y) < 1.2e-38;
}

double ulp(double exact) {
  int exponent = std::ilogb(exact);
  return std::ldexp(1.0, (exponent < -126 ? -126 : exponent > 127 ? 127 : exponent) - 23);
}

}  // namespace

int main(int argc, char **argv) {
  const Inputs inputs(argc, argv);
  cxxrtl_design::p_tested top;
  uint64_t rounded = 0, finite = 0, wrong = 0, unordered = 0, inexact_exact = 0;
  uint32_t worst_input = 0, first_wrong = 0, first_unordered = 0;
  double worst = 0.5, previous = 0, before = 0;
  bool have_previous = false;
  // The input before the first one is not counted; the first one is compared with it.
  for (int64_t n = inputs.first ? -1 : 0; n < int64_t(inputs.count); ++n) {
    if (n == 0) rounded = finite = wrong = unordered = inexact_exact = 0, worst_input = first_wrong = 0, worst = 0.5;
    uint32_t a = inputs[n];
    top.p_a.set(a);
    top.eval();
    uint32_t got = top.p_result.get<uint32_t>();
    double x = as_double(a);
    double y = FUNCTION::near(x);
    if (std::isnan(y)) {
      if (got != 0x7fc00000u) {
        if (!wrong++) first_wrong = a;
      }
      have_previous = false;
      continue;
    }
    float nearest = float(y);
    long double exact = y;
    if (doubtful(y) && std::isfinite(y)) {
      exact = FUNCTION::close(x);
      // Rounded once: through the hardware's own conversion from 80 bits.
      nearest = float(exact);
    }
    double g = as_double(got);
    ++finite;
    if (as_bits(nearest) == got) {
      ++rounded;
    } else {
      bool special = std::isinf(y) || y == 0 || std::isnan(g) || std::signbit(g) != std::signbit(y);
      long double g_ext = std::isinf(g) ? std::copysign(0x1p128L, g) : (long double)g;
      double error = special ? INFINITY : std::fabs(double(g_ext - exact)) / ulp(y);
      if (error >= 1) {
        if (!wrong++) first_wrong = a;
      }
      if (double(nearest) == (double)exact) ++inexact_exact;
      if (std::isfinite(error) && error > worst) worst = error, worst_input = a;
    }
    // Between neighbours the exact function says which way to go.
    if (MONOTONE && have_previous) {
      if ((y > before && g < previous) || (y < before && g > previous)) {
        if (!unordered++) first_unordered = a;
      }
    }
    previous = g;
    before = y;
    have_previous = true;
  }
  std::printf(
      "{\"inputs\": %llu, \"not_nan\": %llu, \"max_ulp\": %.6f, \"max_ulp_input\": \"0x%08x\", "
      "\"correctly_rounded\": %llu, \"wrong\": %llu, \"first_wrong\": \"0x%08x\", \"not_monotone\": %llu, "
      "\"first_not_monotone\": \"0x%08x\", \"exact_missed\": %llu}\n",
      (unsigned long long)inputs.count, (unsigned long long)finite, worst, worst_input, (unsigned long long)rounded,
      (unsigned long long)wrong, first_wrong, (unsigned long long)unordered, first_unordered,
      (unsigned long long)inexact_exact);
  return 0;
}
