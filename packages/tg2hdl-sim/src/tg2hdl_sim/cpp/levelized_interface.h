// The C interface of generated models; the functions are those of harness.h.  In a model for a batch the values of a
// port that varies follow one another, input by input, and so do the words of a stream or a memory.
#if defined(_WIN32)
#define TG_API __declspec(dllexport)
#else
#define TG_API __attribute__((visibility("default")))
#endif

static u64 load_bits(const u32 *words, u32 low, u32 width) {
    u64 value = 0;
    for (u32 have = 0; have < width;) {
        const u32 at = (low + have) % 32, take = 32 - at < width - have ? 32 - at : width - have;
        const u64 part = words[(low + have) / 32] >> at & (((u64)1 << take) - 1);
        value |= part << have;
        have += take;
    }
    return value;
}

static void store_bits(u32 *words, u32 low, u32 width, u64 value) {
    for (u32 have = 0; have < width;) {
        const u32 at = (low + have) % 32, take = 32 - at < width - have ? 32 - at : width - have;
        const u32 mask = (u32)((((u64)1 << take) - 1) << at);
        words[(low + have) / 32] = (words[(low + have) / 32] & ~mask) | ((u32)(value >> have << at) & mask);
        have += take;
    }
}

static void put(State *s, const Field *f, u64 row, u32 lane, const u32 *words) {
    u64 value = load_bits(words, f->low, f->width);
    if (f->is_signed && f->width < 64) value = (u64)((i64)(value << (64 - f->width)) >> (64 - f->width));
    memcpy((char *)s + f->offset + row * f->stride + lane * f->bytes, &value, f->bytes);
}

static void get(const State *s, const Field *f, u64 row, u32 lane, u32 *words) {
    u64 value = 0;
    memcpy(&value, (const char *)s + f->offset + row * f->stride + lane * f->bytes, f->bytes);
    store_bits(words, f->low, f->width, value);
}

// One word for all inputs of a batch; with `each`, one for each, `step` chunks apart.
static void put_port(State *s, u32 port, const u32 *words, size_t step) {
    const Port *p = &ports[port];
    for (int j = 0; j < p->count; j++) {
        const Field *f = &p->fields[j];
        for (u32 lane = 0; lane < (f->varies ? LANES : 1); lane++) put(s, f, 0, lane, words + lane * step);
    }
}

static void edge(State *s) { edges(s, 1, -1, 0); }

#ifdef WAVE
#include <stdio.h>

struct Wave {
    FILE *file;
    u64 cycles;
    int started;
    u32 now[SAMPLE + 1], before[SAMPLE + 1];
    u32 *words, *words_before;
};

static void write_value(FILE *file, u32 width, const u32 *words) {
    if (width > 1) fputc('b', file);
    for (u32 bit = width; bit-- > 0;) fputc('0' + (words[bit / 32] >> bit % 32 & 1), file);
    if (width > 1) fputc(' ', file);
}

// What changed, at a time in ns.
static void write_wave(State *s, u64 time, int high) {
    struct Wave *w = s->wave;
    fprintf(w->file, "#%llu\n%d!\n", (unsigned long long)time, high);
    sample(s, w->now);
    for (u32 k = 0; k < TRACES; k++) {
        const Trace *t = &traces[k];
        const size_t bytes = 4 * ((t->width + 31) / 32);
        if (w->started && !memcmp(w->now + t->start, w->before + t->start, bytes)) continue;
        write_value(w->file, t->width, w->now + t->start);
        fprintf(w->file, "%s\n", t->code);
    }
    memcpy(w->before, w->now, sizeof w->now);
    u32 *words = w->words, *before = w->words_before;
    for (u32 k = 0; k < SHOWN; k++) {
        const Storage *m = &storages[shown[k].memory];
        u32 width = 0;
        for (int j = 0; j < m->count; j++)
            if (m->fields[j].low + m->fields[j].width > width) width = m->fields[j].low + m->fields[j].width;
        for (u32 row = 0; row < shown[k].depth && m->count; row++, words += m->chunks, before += m->chunks) {
            memset(words, 0, 4 * m->chunks);
            for (int j = 0; j < m->count; j++) get(s, &m->fields[j], row, 0, words);
            if (w->started && !memcmp(words, before, 4 * m->chunks)) continue;
            write_value(w->file, width, words);
            fprintf(w->file, "%s%u\n", shown[k].code, row);
        }
    }
    memcpy(w->words_before, w->words, (char *)words - (char *)w->words);
    w->started = 1;
}

static void wave_edge(State *s) {
    if (!s->wave) {
        edge(s);
        return;
    }
    write_wave(s, s->wave->cycles ? 10 * s->wave->cycles + 5 : 0, 0);
    edge(s);
    write_wave(s, 10 * ++s->wave->cycles, 1);
}

static void close_wave(State *s) {
    if (!s->wave) return;
    fclose(s->wave->file);
    free(s->wave->words);
    free(s->wave->words_before);
    free(s->wave);
}
#define edge wave_edge
#define edges(S, LIMIT, WATCH, WANTED) 0
#endif

TG_API void *tg_create(void) {
    const size_t size = (sizeof(State) + 127) / 64 * 64;
    void *raw = malloc(size + 64 + sizeof(void *));
    if (!raw) return NULL;
    State *s = (State *)(((uintptr_t)raw + sizeof(void *) + 63) / 64 * 64);
    ((void **)s)[-1] = raw;
    memset(s, 0, sizeof(State));
    power_on(s);
    return s;
}

TG_API void tg_destroy(void *p) {
#ifdef WAVE
    close_wave((State *)p);
#endif
    free(((void **)p)[-1]);
}

// Take over the state of another library of the same source.
TG_API void tg_copy(void *to, const void *from) { memcpy(to, from, sizeof(State)); }

TG_API u64 tg_cycles(void *p) { return ((State *)p)->cycles; }

TG_API u32 tg_lanes(void) { return LANES; }

// Whether the inputs of a batch have values of their own at a port.
TG_API int tg_varies(u32 port) {
    for (int j = 0; j < ports[port].count; j++)
        if (ports[port].fields[j].varies) return 1;
    return 0;
}

TG_API void tg_set(void *p, u32 port, const u32 *words) { put_port((State *)p, port, words, 0); }

TG_API void tg_set_each(void *p, u32 port, const u32 *words) {
    put_port((State *)p, port, words, ports[port].chunks);
}

TG_API void tg_get(void *p, u32 port, u32 *words) { ports[port].value((State *)p, words); }

TG_API void tg_step(void *p, u64 count) {
    State *s = (State *)p;
    s->cycles += count;
    for (count -= edges(s, count, -1, 0); count; count--) edge(s);
}

// Edges until the port has the value in all inputs of a batch; -1 at the limit, -2 when only some have it.
TG_API i64 tg_run_until(void *p, u32 port, const u32 *words, u64 limit) {
    State *s = (State *)p;
    const u32 chunks = ports[port].chunks;
    u32 *now = (u32 *)malloc(4 * (size_t)LANES * chunks);
    i64 result = -1;
    for (u64 used = ports[port].watched ? edges(s, limit, (int)port, words[0]) : 0;; used++) {
        ports[port].value(s, now);
        u32 hits = 0;
        for (u32 lane = 0; lane < LANES; lane++)
            hits += now[lane * chunks] == words[0] &&
                    (chunks == 1 || !memcmp(now + lane * chunks, words, 4 * chunks));
        if (hits) {
            result = hits == LANES ? (i64)used : -2;
            s->cycles += used;
            break;
        }
        if (used == limit) {
            s->cycles += used;
            break;
        }
        edge(s);
    }
    free(now);
    return result;
}

static int write_memory(State *s, u32 index, u64 offset, u64 count, const u32 *words, u64 apart) {
    const Storage *m = &storages[index];
    for (int j = 0; j < m->count; j++) {
        const Field *f = &m->fields[j];
        for (u32 lane = 0; lane < (f->varies ? LANES : 1); lane++)
            for (u64 i = 0; i < count; i++) put(s, f, offset + i, lane, words + lane * apart + i * m->chunks);
    }
    return 1;
}

TG_API int tg_write_memory(void *p, u32 index, u64 offset, u64 count, const u32 *words) {
    return write_memory((State *)p, index, offset, count, words, 0);
}

TG_API int tg_read_memory_of(void *p, u32 index, u32 lane, u64 offset, u64 count, u32 *words) {
    const Storage *m = &storages[index];
    memset(words, 0, 4 * count * m->chunks);
    for (int j = 0; j < m->count; j++) {
        const Field *f = &m->fields[j];
        for (u64 i = 0; i < count; i++)
            get((State *)p, f, offset + i, f->varies ? lane : 0, words + i * m->chunks);
    }
    return 1;
}

TG_API int tg_read_memory(void *p, u32 index, u64 offset, u64 count, u32 *words) {
    return tg_read_memory_of(p, index, 0, offset, count, words);
}

static void write_stream(State *s, u32 addr, u32 data, u32 enable, const u32 *on, u64 count, const u64 *addresses,
                         const u32 *words, u64 apart) {
    static const u32 off[64];
    const u32 chunks = ports[data].chunks;
    put_port(s, enable, on, 0);
    for (u64 i = 0; i < count; i++) {
        const u32 address[64] = {(u32)addresses[i], (u32)(addresses[i] >> 32)};
        put_port(s, addr, address, 0);
        put_port(s, data, words + i * chunks, apart);
        edge(s);
    }
    s->cycles += count;
    put_port(s, enable, off, 0);
}

TG_API void tg_write_stream(void *p, u32 addr, u32 data, u32 enable, const u32 *on, u64 count,
                            const u64 *addresses, const u32 *words) {
    write_stream((State *)p, addr, data, enable, on, count, addresses, words, 0);
}

// The words of each input of a batch follow those of the one before.
TG_API void tg_write_stream_each(void *p, u32 addr, u32 data, u32 enable, const u32 *on, u64 count,
                                 const u64 *addresses, const u32 *words) {
    write_stream((State *)p, addr, data, enable, on, count, addresses, words, count * ports[data].chunks);
}

// In a batch, the words of each address are those of all inputs.
TG_API void tg_read_stream(void *p, u32 addr, u32 data, u64 count, const u64 *addresses, u64 latency, u32 *words) {
    State *s = (State *)p;
    const u32 size = LANES * ports[data].chunks;
    const u64 edges = count + (latency ? latency : 1) - 1;
    for (u64 i = 0; i < edges; i++) {
        if (i < count) {
            const u32 address[64] = {(u32)addresses[i], (u32)(addresses[i] >> 32)};
            put_port(s, addr, address, 0);
        }
        if (!latency) {
            ports[data].value(s, words);
            words += size;
        }
        edge(s);
        if (latency && i + 1 >= latency) {
            ports[data].value(s, words);
            words += size;
        }
    }
    s->cycles += edges;
}

TG_API int tg_open_wave(void *p, const char *path) {
#ifdef WAVE
    State *s = (State *)p;
    FILE *file = fopen(path, "wb");
    if (!file) return 0;
    size_t chunks = 1;
    for (u32 k = 0; k < SHOWN; k++) chunks += (size_t)storages[shown[k].memory].chunks * shown[k].depth;
    s->wave = (struct Wave *)calloc(1, sizeof(struct Wave));
    s->wave->file = file;
    s->wave->words = (u32 *)calloc(chunks, 4);
    s->wave->words_before = (u32 *)calloc(chunks, 4);
    fputs(wave_header, file);
    return 1;
#else
    (void)p, (void)path;
    return 0;
#endif
}
