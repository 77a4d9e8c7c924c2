// What the programs of exhaustive.py share.
#include <cstdint>
#include <cstdlib>

// The inputs of a run, from the arguments of the program: the first one, their number and their distance.
struct Inputs {
  uint64_t first, count, stride;

  Inputs(int argc, char **argv) {
    if (argc != 4) std::exit(2);
    first = std::strtoull(argv[1], nullptr, 0);
    count = std::strtoull(argv[2], nullptr, 0);
    stride = std::strtoull(argv[3], nullptr, 0);
  }
  uint32_t operator[](int64_t n) const { return uint32_t(first + n * stride); }
};
