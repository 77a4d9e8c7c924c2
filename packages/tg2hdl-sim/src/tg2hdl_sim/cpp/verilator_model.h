// Adapts a Verilator model to harness.h.  Included after Vtop.h and Vtop___024root.h.
#ifdef TG_WAVE
#include <verilated_vcd_c.h>
#endif

namespace {

template <class T>
Field field_of(T &port) {
    return Field{&port, sizeof(T), (sizeof(T) + 3) / 4};
}

template <class T, size_t Depth>
Memory storage_of(VlUnpacked<T, Depth> &memory) {
    return Memory{&memory[0], sizeof(T), (sizeof(T) + 3) / 4};
}

struct Model : NoWave {
    static const bool edge_settles = true;
    VerilatedContext context;
    Vtop top;
#ifdef TG_WAVE
    VerilatedVcdC writer;
    Model() : top(&context, "top") { context.traceEverOn(true); }
#else
    Model() : top(&context, "top") {}
#endif
    ~Model() {
        Verilated::threadContextp(&context);  // may be that of a model that is gone
        top.final();
    }

    void edge() {
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
    }

    void settle() { top.eval(); }

    TG_LOOKUP

#ifdef TG_WAVE
    bool open_wave(const char *path) {
        top.trace(&writer, 99);
        writer.set_time_unit("1ns");
        writer.set_time_resolution("1ns");
        writer.open(path);
        return writer.isOpen();
    }

    void wave(uint64_t cycle, bool high) {
        const uint8_t clock = top.clk;
        top.clk = high;
        writer.dump(10 * cycle + (high || !cycle ? 0 : 5));
        top.clk = clock;
    }

    void close_wave() { writer.close(); }
#endif
};

}  // namespace
