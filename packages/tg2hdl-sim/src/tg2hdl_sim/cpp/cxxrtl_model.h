// Adapts a CXXRTL design to harness.h.  Included after the generated code; TG_TOP is its top class, and TG_FAST says
// that one evaluation per edge is enough.
#ifdef TG_WAVE
#include <cxxrtl/cxxrtl_vcd.h>
#include <cstdio>
#endif

#if defined(_MSC_VER)
#define TG_NOINLINE __declspec(noinline)
#else
#define TG_NOINLINE __attribute__((noinline))
#endif

namespace {

template <size_t Bits>
Field field_of(cxxrtl::value<Bits> &value) {
    return Field{value.data, sizeof(value.data), value.chunks};
}

template <size_t Bits>
Field field_of(cxxrtl::wire<Bits> &wire) {
    return Field{wire.curr.data, sizeof(wire.curr.data), wire.curr.chunks};
}

template <size_t Width>
Memory storage_of(cxxrtl::memory<Width> &memory) {
    return Memory{memory.data[0].data, sizeof(cxxrtl::value<Width>), cxxrtl::value<Width>::chunks};
}

struct Model : NoWave {
#ifdef TG_FAST
    static const bool edge_settles = false;
#else
    static const bool edge_settles = true;
#endif
    TG_TOP top;
    cxxrtl::observer observer;
#ifdef TG_WAVE
    cxxrtl::vcd_writer writer;
    FILE *file = nullptr;
#endif

    TG_NOINLINE void edge() {
#ifdef TG_FAST
        top.evaluate<true>();
        top.commit(observer);
#else
        TG_CLOCK.set(0u);
        top.step();
        TG_CLOCK.set(1u);
        top.step();
#endif
    }

    TG_NOINLINE void settle() {
#ifdef TG_FAST
        top.evaluate<false>();
#else
        top.step();
#endif
    }

    TG_LOOKUP

#ifdef TG_WAVE
    bool open_wave(const char *path) {
        file = fopen(path, "wb");
        if (!file) return false;
        cxxrtl::debug_items items;
        top.debug_info(&items, nullptr, "top ");
        writer.timescale(1, "ns");
        writer.add(items, [](const std::string &, const cxxrtl::debug_item &item) {
            return item.type != cxxrtl::debug_item::MEMORY || item.depth <= 64;
        });
        return true;
    }

    void wave(uint64_t cycle, bool high) {
        const uint32_t clock = TG_CLOCK.template get<uint32_t>();
        TG_CLOCK.set((uint32_t)high);
        writer.sample(10 * cycle + (high || !cycle ? 0 : 5));
        TG_CLOCK.set(clock);
        if (writer.buffer.size() > 1 << 20) flush();
    }

    void flush() {
        fwrite(writer.buffer.data(), 1, writer.buffer.size(), file);
        writer.buffer.clear();
    }

    void close_wave() {
        flush();
        fclose(file);
    }
#endif
};

}  // namespace
