// The C interface that every compiled engine has.  Included after `struct Model`, which provides
//   void edge();             one rising clock edge with the present inputs
//   static const bool edge_settles;  whether combinational outputs are settled after an edge
//   void settle();           combinational outputs from the present registers and inputs
//   Field port(unsigned);    a port's storage
//   Memory memory(unsigned); a memory's storage
//   bool open_wave(const char *); void close_wave(); void wave(uint64_t cycle, bool high);
// All values are little-endian; a word on the interface is `chunks` 32-bit chunks.
#include <cstdint>
#include <cstring>

#if defined(_WIN32)
#define TG_API extern "C" __declspec(dllexport)
#else
#define TG_API extern "C" __attribute__((visibility("default")))
#endif

namespace {

struct Handle {
    Model model;
    uint64_t cycles = 0;
    bool settled = false;
    bool waving = false;

    void settle() {
        if (!settled) {
            model.settle();
            settled = true;
        }
    }

    void edge() {
        if (waving) {
            settle();
            model.wave(cycles, false);
        }
        model.edge();
        cycles++;
        settled = Model::edge_settles;
        if (waving) {
            settle();
            model.wave(cycles, true);
        }
    }

    void run(uint64_t count) {
        if (waving) {
            for (; count; count--) edge();
            return;
        }
        if (count) settled = Model::edge_settles;
        cycles += count;
        for (; count; count--) model.edge();
    }
};

inline void store(const Field &field, const uint32_t *words) { memcpy(field.data, words, field.bytes); }

inline void store(const Field &field, uint64_t value) {
    if (field.bytes <= 8) {
        memcpy(field.data, &value, field.bytes);
    } else {
        memset(field.data, 0, field.bytes);
        memcpy(field.data, &value, 8);
    }
}

inline void load(const Field &field, uint32_t *words) {
    memset(words, 0, 4 * field.chunks);
    memcpy(words, field.data, field.bytes);
}

template <class Equal>
int64_t run_until(Handle &handle, uint64_t limit, Equal equal) {
    for (uint64_t used = 0;; used++) {
        handle.settle();
        if (equal()) return (int64_t)used;
        if (used == limit) return -1;
        handle.edge();
    }
}

}  // namespace

TG_API void *tg_create() { return new Handle; }

TG_API void tg_destroy(void *p) {
    Handle *handle = (Handle *)p;
    if (handle->waving) handle->model.close_wave();
    delete handle;
}

TG_API uint64_t tg_cycles(void *p) { return ((Handle *)p)->cycles; }

TG_API void tg_set(void *p, uint32_t port, const uint32_t *words) {
    Handle &handle = *(Handle *)p;
    store(handle.model.port(port), words);
    handle.settled = false;
}

TG_API void tg_get(void *p, uint32_t port, uint32_t *words) {
    Handle &handle = *(Handle *)p;
    handle.settle();
    load(handle.model.port(port), words);
}

TG_API void tg_step(void *p, uint64_t count) { ((Handle *)p)->run(count); }

TG_API int64_t tg_run_until(void *p, uint32_t port, const uint32_t *words, uint64_t limit) {
    Handle &handle = *(Handle *)p;
    const Field field = handle.model.port(port);
    if (field.bytes == 4) {
        const uint32_t want = words[0];
        return run_until(handle, limit, [=] { return *(const uint32_t *)field.data == want; });
    }
    return run_until(handle, limit, [=] { return memcmp(field.data, words, field.bytes) == 0; });
}

TG_API int tg_write_memory(void *p, uint32_t index, uint64_t offset, uint64_t count, const uint32_t *words) {
    Handle &handle = *(Handle *)p;
    const Memory memory = handle.model.memory(index);
    if (!memory.data) return 0;
    char *row = (char *)memory.data + offset * memory.stride;
    for (; count; count--, row += memory.stride, words += memory.chunks) memcpy(row, words, memory.stride);
    handle.settled = false;
    return 1;
}

TG_API int tg_read_memory(void *p, uint32_t index, uint64_t offset, uint64_t count, uint32_t *words) {
    const Memory memory = ((Handle *)p)->model.memory(index);
    if (!memory.data) return 0;
    const char *row = (const char *)memory.data + offset * memory.stride;
    memset(words, 0, 4 * count * memory.chunks);
    for (; count; count--, row += memory.stride, words += memory.chunks) memcpy(words, row, memory.stride);
    return 1;
}

TG_API void tg_write_stream(void *p, uint32_t addr, uint32_t data, uint32_t enable, const uint32_t *on,
                            uint64_t count, const uint64_t *addresses, const uint32_t *words) {
    Handle &handle = *(Handle *)p;
    const Field addr_field = handle.model.port(addr), data_field = handle.model.port(data);
    const Field enable_field = handle.model.port(enable);
    store(enable_field, on);
    for (uint64_t i = 0; i < count; i++, words += data_field.chunks) {
        store(addr_field, addresses[i]);
        store(data_field, words);
        handle.settled = false;
        handle.edge();
    }
    store(enable_field, (uint64_t)0);
    handle.settled = false;
}

TG_API void tg_read_stream(void *p, uint32_t addr, uint32_t data, uint64_t count, const uint64_t *addresses,
                           uint64_t latency, uint32_t *words) {
    Handle &handle = *(Handle *)p;
    const Field addr_field = handle.model.port(addr), data_field = handle.model.port(data);
    const uint64_t edges = count + (latency ? latency : 1) - 1;
    for (uint64_t i = 0; i < edges; i++) {
        if (i < count) {
            store(addr_field, addresses[i]);
            handle.settled = false;
        }
        if (!latency) {
            handle.settle();
            load(data_field, words);
            words += data_field.chunks;
        }
        handle.edge();
        if (latency && i + 1 >= latency) {
            handle.settle();
            load(data_field, words);
            words += data_field.chunks;
        }
    }
}

TG_API int tg_open_wave(void *p, const char *path) {
    Handle &handle = *(Handle *)p;
    return handle.waving = handle.model.open_wave(path);
}
