// Runs a one-operand FP32 core in its zero-latency build over a range of inputs against a double reference.
//
// Compiled with -DFUNCTION=<name below>; argv: first input, number of inputs, stride. Prints one JSON object.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core.cc"

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

struct exp_f {
  static double near(double x) { return std::exp(x); }
  static long double close(double x) { return expl(x); }
};
struct exp10_f {
  static double near(double x) { return exp10(x); }
  static long double close(double x) { return exp10l(x); }
};
struct ln_f {
  static double near(double x) { return std::log(x); }
  static long double close(double x) { return logl(x); }
};
struct log10_f {
  static double near(double x) { return std::log10(x); }
  static long double close(double x) { return log10l(x); }
};
struct tanh_f {
  static double near(double x) { return std::tanh(x); }
  static long double close(double x) { return tanhl(x); }
};
struct sigmoid_f {
  static double near(double x) { return 1 / (1 + std::exp(-x)); }
  static long double close(double x) { return 1 / (1 + expl(-(long double)x)); }
};
struct erf_f {
  static double near(double x) { return std::erf(x); }
  static long double close(double x) { return erfl(x); }
};
struct atan_f {
  static double near(double x) { return std::atan(x); }
  static long double close(double x) { return atanl(x); }
};
struct cos_f {
  static double near(double x) { return std::cos(x); }
  static long double close(double x) { return cosl(x); }
};

// Turns are reduced exactly before the product with 2 pi.
double turns(double x) { return x - std::nearbyint(2 * x) / 2; }
double odd_half(double x) { return std::fmod(std::nearbyint(2 * x), 2) != 0 ? -1.0 : 1.0; }

struct exp2_f {
  static double near(double x) { return std::exp2(x); }
  static long double close(double x) { return exp2l(x); }
};
struct log2_f {
  static double near(double x) { return std::log2(x); }
  static long double close(double x) { return log2l(x); }
};
struct reciprocal_f {
  static double near(double x) { return 1 / x; }
  static long double close(double x) { return 1 / (long double)x; }
};
struct sqrt_f {
  static double near(double x) { return std::sqrt(x); }
  static long double close(double x) { return sqrtl(x); }
};
struct rsqrt_f {
  static double near(double x) { return 1 / std::sqrt(x); }
  static long double close(double x) { return 1 / sqrtl(x); }
};
struct sin_f {
  static double near(double x) { return std::sin(x); }
  static long double close(double x) { return sinl(x); }
};
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
  if (argc != 4) return 2;
  uint64_t first = std::strtoull(argv[1], nullptr, 0);
  uint64_t count = std::strtoull(argv[2], nullptr, 0);
  uint64_t stride = std::strtoull(argv[3], nullptr, 0);
  cxxrtl_design::p_tested top;
  uint64_t rounded = 0, finite = 0, wrong = 0, unordered = 0, inexact_exact = 0;
  uint32_t worst_input = 0, first_wrong = 0, first_unordered = 0;
  double worst = 0.5, previous = 0, before = 0;
  bool have_previous = false;
  // The input before the first one is not counted; the first one is compared with it.
  for (int64_t n = first ? -1 : 0; n < int64_t(count); ++n) {
    if (n == 0) rounded = finite = wrong = unordered = inexact_exact = 0, worst_input = first_wrong = 0, worst = 0.5;
    uint32_t a = uint32_t(first + n * stride);
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
      (unsigned long long)count, (unsigned long long)finite, worst, worst_input, (unsigned long long)rounded,
      (unsigned long long)wrong, first_wrong, (unsigned long long)unordered, first_unordered,
      (unsigned long long)inexact_exact);
  return 0;
}
