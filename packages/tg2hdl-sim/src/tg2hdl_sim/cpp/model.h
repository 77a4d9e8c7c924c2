// What the adapters of CXXRTL and Verilator share.  Included before them.
#include <cstddef>
#include <cstdint>

namespace {

struct Field {
    void *data;
    size_t bytes, chunks;
};

struct Memory {
    void *data;
    size_t stride, chunks;
};

// A Model without waveforms; one with them hides these.
struct NoWave {
    bool open_wave(const char *) { return false; }
    void wave(uint64_t, bool) {}
    void close_wave() {}
};

}  // namespace

// `Field port(uint32_t)` and `Memory memory(uint32_t)` of a Model, whose design is `top`.
#define TG_LOOKUP \
    Field port(uint32_t index) { \
        switch (index) { TG_PORTS } \
        return Field{nullptr, 0, 0}; \
    } \
    Memory memory(uint32_t index) { \
        switch (index) { TG_MEMORIES } \
        return Memory{nullptr, 0, 0}; \
    }
