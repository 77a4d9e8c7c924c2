// The machine, cycle by cycle: what the hardware does in cycle t, in the order row stage, SXU, DMA.
// A row takes effect when it is issued; the interlocks make that the same as when it is written.
#include "tpu_generated.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

constexpr int L = TPU_LANES;
constexpr int CHECK = TPU_CHECK;  // cycles from issue to the checks of data
constexpr int HISTORY = 128;
constexpr int LATENCY[] = TPU_LATENCIES, INTERVAL[] = TPU_INTERVALS;  // by kind
constexpr unsigned LONGEST = TPU_HAS_LONG ? TPU_LONGEST : LATENCY[0];
static_assert(LONGEST < HISTORY, "a row in flight would be forgotten");

struct Instr {
    uint8_t opcode, valid;
    int32_t pc;
    int32_t dst, dst_stride, a, a_stride, b, b_stride;
    int32_t count, row;                    // rows; number of this one
    uint8_t pre, constant, relu, levels, accumulate, pack, reduce, segment, k, xlu, dst_reg;
};

struct Row { int32_t w[L]; };

constexpr int PER_WORD = 32 / TPU_MATRIX_BITS, PACKED = L * PER_WORD;  // elements of a word, of a row
inline float to_float(int32_t v) { float r; std::memcpy(&r, &v, 4); return r; }
inline int32_t from_float(float v) {
    int32_t r;
    if (v != v) return 0x7FC00000;
    std::memcpy(&r, &v, 4);
    return r;
}

// Elements of the matrix unit: packed ones, those of words, and whether a word is beyond the format.
#if TPU_MATRIX_FLOAT
typedef float Element;
inline Element packed(const int32_t *w, int at) {
    uint32_t word = (uint32_t)w[at / PER_WORD] >> TPU_MATRIX_BITS % 32 * (at % PER_WORD);
    return to_float((int32_t)(word << (32 - TPU_MATRIX_BITS)));
}
inline Element element(int32_t word) {
    uint32_t u = (uint32_t)word;
    if (TPU_MATRIX_BITS == 32) return to_float(word);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return to_float(0x7FC00000);
    return to_float((int32_t)((u + 0x7FFF + (u >> 16 & 1)) & 0xFFFF0000));  // nearest even
}
inline bool beyond(int32_t) { return false; }
// Products in FP32, added as a tree of neighbours.
inline int32_t dot(const Element *factor, const Element (*weights)[TPU_COLUMNS], int j) {
    float sum[TPU_ROWS];
    for (int i = 0; i < TPU_ROWS; i++) sum[i] = factor[i] * weights[i][j];
    for (int n = TPU_ROWS / 2; n; n /= 2)
        for (int i = 0; i < n; i++) sum[i] = sum[2 * i] + sum[2 * i + 1];
    return from_float(sum[0]);
}
#else
#if TPU_MATRIX_BITS == 8
typedef int8_t Element;
#else
typedef int16_t Element;
#endif
inline Element packed(const int32_t *w, int at) { return (Element)((uint32_t)w[at / PER_WORD] >> TPU_MATRIX_BITS * (at % PER_WORD)); }
inline Element element(int32_t word) { return (Element)word; }
inline bool beyond(int32_t word) { return word != (Element)word; }
inline int32_t dot(const Element *factor, const Element (*weights)[TPU_COLUMNS], int j) {
    uint32_t sum = 0;  // wraps
    for (int i = 0; i < TPU_ROWS; i++) sum += (uint32_t)(factor[i] * weights[i][j]);
    return (int32_t)sum;
}
#endif

struct Flight { int64_t write; int32_t row; uint32_t mask; int kind; };

struct Channel {
    int active, pc;
    int32_t vmem, vmem_last, xmem, left;   // VMEM: next and last row; external: next row, requests that are left
    int32_t x_first, x_last;
    int was_active[2], seen_active;        // in the two cycles before, and as the row stage sees it
    int32_t was_vmem[2], seen_vmem;
    int staged;                            // a row is on its way from the queue to the scratchpad
    Row stage;
    int outstanding, head;
    int64_t ready[TPU_DMA_FIFO];
    Row data[TPU_DMA_FIFO];
};

struct Machine {
    Row vmem[TPU_VMEM_ROWS];
    Row *xmem;
    uint64_t imem[TPU_IMEM_DEPTH][2];
    Instr decoded[TPU_IMEM_DEPTH];
    uint8_t illegal[TPU_IMEM_DEPTH];
    Element weights[TPU_ROWS][TPU_COLUMNS];
    int32_t index[L];
    int32_t sums[TPU_ROWS][TPU_COLUMNS];
};

struct Trace { int32_t x_pc, s_pc, load_pc, store_pc; uint8_t x, s, load, store; };

enum { X_IDLE, X_ISSUE, X_DATA, X_LOAD, X_STORE, X_PORT, X_BEAT, X_CHANNEL, X_DMA, X_UNIT };
enum { S_IDLE, S_EXECUTE, S_FETCH, S_FULL, S_LDA, S_HALT };
enum { D_IDLE, D_MOVE, D_WAIT };

// Operands that come through the host port while the program runs, and the number of words of this program.
struct Stream { const int32_t *rows; int32_t first, count, words; };

struct Counters { int64_t cycles, instructions, rows; int32_t trap, pc; };

inline int64_t field(const uint64_t *w, int low, int width, bool is_signed) {
    uint64_t v = low >= 64 ? w[1] >> (low - 64) : (w[0] >> low) | (low && low + width > 64 ? w[1] << (64 - low) : 0);
    v &= (1ull << width) - 1;
    if (is_signed && v >> (width - 1)) v |= ~((1ull << width) - 1);
    return (int64_t)v;
}

inline int32_t requantize(int32_t a, uint32_t ub, int k, int zero = 0) {
    int64_t r = (((int64_t)a * (int64_t)(ub & 0xFFFF) + ((1ll << k) >> 1)) >> k) + zero;
    return r < -128 ? -128 : r > 127 ? 127 : (int32_t)r;
}

#define BYTES(e) ([&] { uint32_t out = 0; for (int n = 0; n < 4; n++) { \
    int x = (int8_t)(ua >> 8 * n), y = (int8_t)(ub >> 8 * n), v = e; \
    v = v < -128 ? -128 : v > 127 ? 127 : v; out |= (uint32_t)(uint8_t)v << 8 * n; } return out; }())

inline int32_t float_to_int(float v) {
    if (!(v - v == 0)) return 0;
    return (int32_t)(uint32_t)(int64_t)std::fmod(std::trunc((double)v), 4294967296.0);
}
inline uint32_t divided(int32_t a, int32_t b) { return b ? (uint32_t)((int64_t)a / b) : 0; }

// Operations that Python evaluates: bit for bit the tables of the cores.
void (*evaluate)(int opcode, const int32_t *from, int32_t *to);
inline void tpu_function(int opcode, const int32_t *from, int32_t *to) { evaluate(opcode, from, to); }

inline int32_t combine(int how, int32_t x, int32_t y) {
    return how == 1 ? (int32_t)((uint32_t)x + (uint32_t)y) : how == 2 ? (x > y ? x : y) : (x < y ? x : y);
}

#include "tpu_operations.h"

struct Run {
    Machine &m;
    Instr x{};             // the instruction in the row stage, and those that wait
    Instr q[1 + TPU_ISSUE_REGISTERS]{};
    int waiting = 0;
    Instr spare{}, first{}, second{}, p{};  // rows behind the one that is issued next, and this one
    int32_t done_rows = 0;
    bool beat = false;
    int crossed = 0;  // parts of the permuted row that are made
    int64_t unit_free[4] = {}, reducer_free = 0;
    int64_t index_ready = 0;
    bool primed = false;   // the first index of `x` has been added
    Row accumulator{};
    Flight flights[HISTORY]{};
    unsigned flight_at = 0;
    int64_t last_write = -1, t = 0, last_check = -1000;
    Channel load{}, store{};
    Stream host{};
    int32_t arrived = 0, was_arrived[2] = {}, seen_arrived = 0;  // rows
    bool handed = false;     // a transfer went to its channel in the cycle before
    bool clear = false;      // the transfer in the row stage met nothing in the cycle before
    bool tested = false;     // the register of a branch has been looked at
    int late = 0, late_pc = 0;  // a trap of an instruction before, and when it stops the machine
    int64_t late_at = 0;
    int64_t loop_at = -2, popped_at = -1, set_at = -1, unsettled_at = -1, handed_at = -1;
    bool latched = false;    // the word at `pc`, while words come
    int32_t regs[8] = {};
    struct { int32_t start, left; } loops[TPU_LOOP_DEPTH];
    int depth = 0;
    int32_t pc = 0;
    int64_t fetch_at = 1;
    bool halting = false;
    int64_t lda_at = 0;    // when the register of a waiting `lda` is there, -1 not issued yet, 0 none
    int lda_reg = 0, lda_pc = 0;
    int32_t lda_value = 0;
    Counters c{};
    int x_state = 0, s_state = 0, x_pc = 0, s_pc = 0, load_state = 0, store_state = 0;

    explicit Run(Machine &machine) : m(machine) {
        for (auto &f : flights) f.write = -1;
    }

    // -- memories ------------------------------------------------------------------------------------------------
    bool memory_ready(int64_t at) const {
        if (TPU_MEMORY_INTERVAL > 1 && at % TPU_MEMORY_INTERVAL) return false;
        if (TPU_REFRESH_PERIOD && at % (TPU_REFRESH_PERIOD ? TPU_REFRESH_PERIOD : 1) < TPU_REFRESH_CYCLES) return false;
        return true;
    }
    static int bank(int32_t row) { return row >= TPU_VMEM_ROWS / 2; }

    bool in_flight(int32_t row, uint32_t mask, int before = 0) const {
        if (last_write < t - before) return false;
        for (unsigned n = 0; n < LONGEST + before; n++) {
            const Flight &f = flights[(flight_at - 1 - n) % HISTORY];
            if (f.write >= t - before && f.row == row && (f.mask & mask)) return true;
        }
        return false;
    }
    // Another row is written in the same cycle, or one of a slower kind writes the same words.
    bool slot_taken(int64_t at, int kind, int32_t row, uint32_t mask) const {
        if (!TPU_HAS_LONG || last_write < t) return false;
        for (const Flight &f : flights)
            if (f.write == at || (f.write >= t && f.kind > kind && f.row == row && (f.mask & mask))) return true;
        return false;
    }
    bool bank_is_written(int32_t row, int after = 0) const {
        if (last_write < t + after) return false;
        for (const Flight &f : flights)
            if (f.write == t + after && bank(f.row) == bank(row)) return true;
        return false;
    }

    // -- row stage -------------------------------------------------------------------------------------------------
    void stop(int trap, int at_pc) {
        halting = true;
        x.valid = p.valid = spare.valid = first.valid = second.valid = 0;
        waiting = 0;
        lda_at = 0;
        c.trap = trap;
        c.pc = at_pc;
    }

    static bool is(const Instr &row, int form) { return row.valid && tpu_form(row.opcode) == form; }

    void prepare(Instr &to, bool index_comes) {
        if (to.valid || !x.valid) return;
        bool gathers = tpu_form(x.opcode) == FORM_VECTOR && x.pre != 3 && x.xlu == 1;
        if (gathers && !primed) { primed = t >= index_ready && !index_comes; return; }
        to = x;
        if (gathers) {
            int32_t i = m.index[done_rows];
            to.a = i < 0 || i > 0xFFFF ? -1 : x.a + i;
        }
        to.row = done_rows++;
        x.a += x.a_stride;
        if (!x.constant) x.b += x.b_stride;
        if (!x.accumulate) x.dst += x.dst_stride;
        int form = tpu_form(x.opcode);
        bool many = form == FORM_VECTOR || form == FORM_SUMS || x.opcode == OPCODE_WEIGHTS;
        if (!many || done_rows == x.count) { x.valid = 0; done_rows = 0; primed = false; }
    }

    // With registers: all rows in the queue move, or none; what follows a transfer is compared when its channel has it.
    void advance(bool behind, bool index_comes) {
        bool room = !spare.valid;
        if (!p.valid) {
            p = second;
            second.valid = 0;
            if (!behind) {
                second = first;
                first = spare;
                spare.valid = 0;
            }
        }
        if (room) prepare(first.valid ? spare : first, index_comes);
    }

    void issue() {
        x_state = X_IDLE;
        bool behind = is(p, FORM_DMA) || is(second, FORM_DMA) || handed;
        handed = false;
        bool index_comes = is(p, FORM_INDEX) || is(second, FORM_INDEX) || is(first, FORM_INDEX) ||
                           is(spare, FORM_INDEX);
        if (p.valid) {
            x_pc = p.pc;
            switch (tpu_form(p.opcode)) {
            case FORM_DMA: issue_dma(); break;
            case FORM_VECTOR: issue_vector(); break;
            case FORM_SUMS: issue_sums(); break;
            default: issue_read();
            }
        }
        if (TPU_ISSUE_REGISTERS) advance(behind, index_comes);
    }

    // With registers, the row stage compares its rows with the channels as they were two cycles before.
    template <class T> static T seen(T now, T (&was)[2]) {
        T found = TPU_ISSUE_REGISTERS ? was[1] : now;
        was[1] = was[0];
        was[0] = now;
        return found;
    }
    void see() {
        for (Channel *ch = &load; ch; ch = ch == &load ? &store : nullptr) {
            ch->seen_active = seen(ch->active, ch->was_active);
            ch->seen_vmem = seen(ch->vmem, ch->was_vmem);
        }
        seen_arrived = seen(arrived, was_arrived);
    }
    static bool covers(const Channel &ch, int32_t row) {
        return ch.seen_active && row >= ch.seen_vmem && row <= ch.vmem_last;
    }

    bool x_ready() const { return !x.valid && (TPU_ISSUE_REGISTERS || !p.valid); }

    bool overlaps(const Channel &ch, int32_t low, int32_t high) const {
        return ch.active && low <= ch.vmem_last && high >= ch.vmem;
    }

    bool arrives(int32_t row) const {
        return covers(load, row) || (row >= host.first + seen_arrived && row < host.first + host.count);
    }

    void issue_dma() {
        bool is_load = p.opcode == OPCODE_LOAD;
        int32_t first = is_load ? p.dst : p.a, last = first + p.count - 1;
        if (first < 0 || last >= TPU_VMEM_ROWS) return stop(TRAP_VMEM, p.pc);
        if (p.b < 0 || (int64_t)p.b + p.count > TPU_XMEM_ROWS) return stop(TRAP_XMEM, p.pc);
        Channel &mine = is_load ? load : store, &other = is_load ? store : load;
        bool same_rows = overlaps(other, first, last);
        bool same_x = other.active && p.b <= other.x_last && p.b + p.count - 1 >= other.x_first;
        bool was_clear = clear;
        clear = !(mine.active || same_rows || same_x || t <= last_check + CHECK || arrived < host.count);
        if (!(TPU_ISSUE_REGISTERS ? was_clear : clear)) { x_state = X_CHANNEL; return; }
        clear = false;
        mine = Channel{};
        mine.active = 2;  // from the next cycle on
        mine.pc = p.pc;
        mine.vmem = first;
        mine.vmem_last = last;
        mine.xmem = mine.x_first = p.b;
        mine.x_last = p.b + p.count - 1;
        mine.left = p.count;
        p.valid = 0;
        handed = true;
        x_state = X_DMA;
        c.instructions++;
    }

    // A row that must not be read yet; sets the state.
    bool blocked(int32_t row, uint32_t mask) {
        if (in_flight(row, mask)) { x_state = X_DATA; return true; }
        if (arrives(row)) { x_state = X_LOAD; return true; }
        return false;
    }

    void issue_read() {  // weights, tile, lda
        bool whole = p.opcode == OPCODE_TILE;
        int n = whole ? TPU_ROWS * TPU_COLUMNS : TPU_COLUMNS;
        int per_row = p.opcode == OPCODE_LDA || p.opcode == OPCODE_INDEX ? 1 : (p.pre == 2 ? PACKED : L) / n;
        int32_t row = p.a < 0 ? -1 : p.a / per_row;
        if (row < 0 || row >= TPU_VMEM_ROWS) return stop(TRAP_VMEM, p.pc);
        if (blocked(row, ~0u)) return;
        x_state = X_ISSUE;
        c.rows++;
        const Row &r = m.vmem[row];
        if (p.opcode == OPCODE_INDEX) {
            std::memcpy(m.index, r.w, sizeof m.index);
            index_ready = t + 2 + TPU_READ_REGISTERS;
            p.valid = 0;
            c.instructions++;
            return;
        }
        if (p.opcode == OPCODE_LDA) {
            lda_value = r.w[p.k];
            lda_at = t + TPU_LATENCY + 1;
            p.valid = 0;
            c.instructions++;
            return;
        }
        if (p.pre == 1 && !TPU_MATRIX_FLOAT) last_check = t;
        int from = p.a % per_row * n;
        Element *to = whole ? &m.weights[0][0] : m.weights[p.row];
        for (int n_at = 0; n_at < n; n_at++) {
            int at = from + n_at;
            if (p.pre == 1 && beyond(r.w[at])) return stop(TRAP_FORMAT, p.pc);
        }
        for (int n_at = 0; n_at < n; n_at++) {
            int at = from + n_at;
            to[n_at] = p.pre == 1 ? element(r.w[at]) : packed(r.w, at);
        }
        p.valid = 0;
        if (whole || p.row + 1 == p.count) c.instructions++;
    }

    void issue_sums() {  // preload, outer
        bool outer = p.opcode == OPCODE_OUTER;
        int a_per_row = outer ? PACKED / TPU_ROWS : 1, b_per_row = PACKED / TPU_COLUMNS;
        if (p.a < 0 || p.a >= TPU_VMEM_ROWS * a_per_row || (outer && (p.b < 0 || p.b >= TPU_VMEM_ROWS * b_per_row)))
            return stop(TRAP_VMEM, p.pc);
        int32_t from = p.a / a_per_row, other = p.b / b_per_row;
        if (blocked(from, ~0u) || (outer && blocked(other, ~0u))) return;
        x_state = X_ISSUE;
        c.rows++;
        const int32_t *va = m.vmem[from].w, *vb = m.vmem[other].w;
        for (int i = 0; i < TPU_ROWS; i++)
            for (int j = 0; j < TPU_COLUMNS; j++) {
                int32_t &sum = m.sums[i][j];
                if (!outer) {
                    if (i == p.row) sum = va[j];
                    continue;
                }
                int product = packed(va, p.a % a_per_row * TPU_ROWS + i) * packed(vb, p.b % b_per_row * TPU_COLUMNS + j);
                sum = (int32_t)((p.row || p.accumulate ? (uint32_t)sum : 0u) + (uint32_t)product);
            }
        p.valid = 0;
        if (p.row + 1 == p.count) c.instructions++;
    }

    void issue_vector() {
        int segments = 1 << p.segment;
        bool drains = TPU_OUTPUT_STATIONARY && p.pre == 1 && p.xlu == XLU_SUMS;
        int per_row = drains ? 1 : p.pre == 1 ? L / TPU_ROWS : p.pre == 2 ? PACKED / TPU_ROWS : 1;
        bool permute = p.pre == 3 && p.xlu == 3;
        bool reads_b = !p.constant && (tpu_reads_b(p.opcode) || permute);
        bool reads_c = tpu_reads_c(p.opcode);
        bool multiplies = p.pre == 1 || p.pre == 2;
        int kind = TPU_MATRIX_FLOAT && multiplies ? TPU_KIND_PRODUCTS : tpu_kind(p.opcode);
        if (p.dst < 0 || p.dst >= TPU_VMEM_ROWS << p.segment || p.a < 0 || p.a >= (drains ? TPU_ROWS : TPU_VMEM_ROWS * per_row) ||
            (reads_b && (p.b < 0 || p.b >= TPU_VMEM_ROWS)))
            return stop(TRAP_VMEM, p.pc);
        int32_t to = p.dst >> p.segment, from = p.a / per_row;
        int width = L >> p.segment, lane = (p.dst & (segments - 1)) * width;
        uint32_t mask = (uint32_t)(((1ull << width) - 1) << lane);
        uint32_t straight = p.levels ? ~0u : mask;
        bool last = p.row == p.count - 1;
        bool writes = !p.accumulate || last;
        int64_t at = t + LATENCY[kind];
        if (reads_c && !beat) {  // the cycle that reads the old destination
            if (blocked(to, straight)) return;
            beat = true;
            x_state = X_BEAT;
            return;
        }
        // A row of the sums is in no memory; it takes the number of the destination.
        if (blocked(drains ? to : from, drains ? 0 : p.pre ? ~0u : straight)) return;
        if (reads_b && blocked(p.b, permute ? ~0u : straight)) return;
        if (writes && arrives(to)) { x_state = X_LOAD; return; }
        if (writes && covers(store, to)) { x_state = X_STORE; return; }
        if (writes && slot_taken(at, kind, to, straight)) { x_state = X_PORT; return; }
        bool reduces = p.levels && writes;
        if (t < unit_free[kind] || (reduces && t < reducer_free)) { x_state = X_UNIT; return; }
        if (p.pre == 3 && crossed < TPU_CROSSINGS - 1) { crossed++; x_state = X_UNIT; return; }
        crossed = 0;
        unit_free[kind] = t + INTERVAL[kind];
        if (reduces) reducer_free = t + TPU_REDUCTIONS;
        x_state = X_ISSUE;
        beat = false;
        c.rows++;
        if ((p.pre == 1 && !drains && !TPU_MATRIX_FLOAT) || permute) last_check = t;

        int32_t a[L], b[L];
        const int32_t *va = m.vmem[drains ? to : from].w, *vc = m.vmem[to].w;
        if (reads_b) std::memcpy(b, m.vmem[p.b].w, sizeof b);
        else for (int i = 0; i < L; i++) b[i] = p.constant ? p.b : 0;
        if (drains) {
            for (int i = 0; i < L; i++) a[i] = m.sums[p.a][i % TPU_COLUMNS];
        } else if (p.pre == 0) std::memcpy(a, va, sizeof a);
        else if (p.pre == 3) {
            for (int i = 0; i < L; i++) {
                int s = i;
                if (p.xlu == 0) s = (i + p.k) % L;
                else if (p.xlu == 1) s = p.k;
                else if (p.xlu == 2) { int side = 1 << TPU_LEVELS / 2; s = i % side * side + i / side; }
                else { if (b[i] < 0 || b[i] >= L) return stop(TRAP_INDEX, p.pc); s = b[i]; }
                a[i] = va[s];
            }
        } else {
            Element factor[TPU_ROWS];
            int first = p.a % per_row * TPU_ROWS;
            for (int i = 0; i < TPU_ROWS; i++) {
                int s = first + i;
                if (p.pre == 1 && beyond(va[s])) return stop(TRAP_FORMAT, p.pc);
                factor[i] = p.pre == 1 ? element(va[s]) : packed(va, s);
            }
            for (int j = 0; j < TPU_COLUMNS; j++) {
                int32_t sum = dot(factor, m.weights, j);
                for (int i = j; i < L; i += TPU_COLUMNS) a[i] = sum;
            }
        }
        Row r;
        tpu_execute(p.opcode, a, b, vc, p.k, r.w);
        if (p.relu) for (int i = 0; i < L; i++) r.w[i] = r.w[i] < 0 ? 0 : r.w[i];
        if (p.accumulate) {
            if (p.row) for (int i = 0; i < L; i++) r.w[i] = combine(p.reduce, accumulator.w[i], r.w[i]);
            accumulator = r;
        }
        if (writes) {
            for (int level = 0; level < TPU_LEVELS; level++)
                if (p.levels >> level & 1) {
                    Row s = r;
                    for (int i = 0; i < L; i++) r.w[i] = combine(p.reduce, s.w[i], s.w[i ^ 1 << level]);
                }
            if (p.pack) {
                int group = p.levels + 1;
                Row s = r;
                for (int i = 0; i < L; i++) r.w[i] = s.w[i % (L / group) * group];
            }
            for (int i = lane; i < lane + width; i++) m.vmem[to].w[i] = r.w[i];
            flights[flight_at++ % HISTORY] = Flight{at, to, mask, kind};
            if (at > last_write) last_write = at;
        }
        p.valid = 0;
        if (last) c.instructions++;
    }

    // -- SXU -------------------------------------------------------------------------------------------------------
    bool idle() const {
        return !x.valid && !waiting && !p.valid && !first.valid && !second.valid && !spare.valid && last_write <= t && t > last_check + CHECK && !load.active && !store.active && arrived == host.count;
    }

    bool fits(int64_t v) const { return v >= -(1 << (TPU_ADDRESS_BITS - 1)) && v < 1 << (TPU_ADDRESS_BITS - 1); }

    void trap(int code) {
        halting = true;
        c.trap = code;
        c.pc = pc;
        s_state = S_HALT;
    }

    // The machine stops in the next cycle, or one later.
    void trap_later(int code, int at_pc, int after) {
        if (late) return;
        late = code;
        late_pc = at_pc;
        late_at = t + after;
    }

    void go(int32_t to, int late = TPU_ISSUE_REGISTERS) {
        pc = to;
        latched = false;
        fetch_at = t + 2 + late;
    }

    // Word k comes in cycle k and is executed in the next one (not with registers), or from the memory three cycles later (four).
    bool fetched() {
        constexpr int more = TPU_ISSUE_REGISTERS;
        bool bypassed = !more && pc == t - 1;
        if (host.words) latched |= pc < host.words ? bypassed || pc <= t - 3 - more : t >= host.words + 2 + more;
        return latched || !host.words;
    }

    void sequence(bool ready) {
        constexpr int places = 1 + TPU_ISSUE_REGISTERS;
        bool full = waiting == places;
        bool stops = late && t >= late_at;
        if (stops && !halting && handed_at == t - 1 && waiting) waiting--;  // with registers, it comes after what stops
        if (ready && waiting) {
            x = q[0];
            q[0] = q[places - 1];
            waiting--;
            ready = false;
        } else if (TPU_ISSUE_REGISTERS) ready = false;  // no instruction goes through at once
        s_pc = pc;
        if (halting) { s_state = S_HALT; return; }
        if (stops) { pc = late_pc; return trap(late); }
        if (lda_at) {
            s_state = S_LDA;
            if (lda_at < 0 || t < lda_at - 1) return;
            if (!fits(lda_value)) trap_later(TRAP_REGISTER, lda_pc, 1);
            regs[lda_reg] = lda_value;
            lda_at = 0;
            return;
        }
        if (t < fetch_at) { s_state = S_FETCH; return; }
        if (!fetched()) { s_state = S_FETCH; return; }
        // With registers, what ends the run waits for the trap of what is before it.
        bool ends = pc >= TPU_IMEM_DEPTH || m.illegal[pc] || m.decoded[pc].opcode == OPCODE_HALT;
        if (TPU_ISSUE_REGISTERS && ends && unsettled_at == t - 1) { s_state = S_FETCH; return; }
        if (pc >= TPU_IMEM_DEPTH) return trap(TRAP_PROGRAM);
        if (m.illegal[pc]) return trap(TRAP_ILLEGAL);
        s_state = S_EXECUTE;
        const Instr &i = m.decoded[pc];
        if (tpu_form(i.opcode) == FORM_SCALAR) return scalar(i);
        if (full) { s_state = S_FULL; return; }
        Instr r = i;
        const uint64_t *w = m.imem[pc];
        auto reg = [&](int low) { return regs[field(w, low, 3, false)]; };
        r.pc = pc;
        r.valid = 1;
        r.dst = saturated((int64_t)i.dst + (tpu_form(i.opcode) == FORM_LDA ? 0 : reg(LOW_DST_REG)));
        r.a = saturated((int64_t)i.a + reg(LOW_A_REG));
        if (!i.constant) r.b = saturated((int64_t)i.b + reg(LOW_B_REG));
        if (tpu_form(i.opcode) == FORM_LDA) { lda_at = -1; lda_reg = i.dst_reg; lda_pc = pc; }
        (ready ? x : q[waiting++]) = r;
        handed_at = t;
        pc++;
        latched = false;
    }
    static int32_t saturated(int64_t v) { return (int32_t)(v > 0x7FFFFFFF ? 0x7FFFFFFF : v < -0x7FFFFFFF ? -0x7FFFFFFF : v); }

    void scalar(const Instr &i) {
        int source = field(m.imem[pc], LOW_A_REG, 3, false);
        int64_t sum = (int64_t)regs[source] + i.b;
        bool branch = i.opcode == OPCODE_BZ || i.opcode == OPCODE_BNZ || i.opcode == OPCODE_BNEG;
        if (TPU_ISSUE_REGISTERS && branch && !tested) { tested = set_at != t - 1; return; }
        tested = false;
        bool waits = loop_at == t - 1 || (TPU_ISSUE_REGISTERS && (loop_at == t - 2 || popped_at == t - 1));
        if (i.opcode == OPCODE_END && waits) { s_state = S_FETCH; return; }
        constexpr int after = 1 + TPU_ISSUE_REGISTERS;
        c.instructions++;
        switch (i.opcode) {
        case OPCODE_HALT: halting = true; s_state = S_HALT; c.pc = pc; return;
        case OPCODE_SET:
            if (!fits(sum)) trap_later(TRAP_REGISTER, pc, after);
            regs[i.dst_reg] = (int32_t)sum;
            set_at = unsettled_at = t;
            break;
        case OPCODE_LOOP:
            loop_at = unsettled_at = t;
            if (depth == TPU_LOOP_DEPTH || sum < 1 || !fits(sum)) { trap_later(TRAP_LOOP, pc, after); break; }
            loops[depth].start = pc + 1;
            loops[depth++].left = (int32_t)sum;
            break;
        case OPCODE_END:
            if (!depth) { trap_later(TRAP_LOOP, pc, after); unsettled_at = t; break; }
            if (--loops[depth - 1].left) return go(loops[depth - 1].start, 0);
            depth--;
            popped_at = t;
            break;
        case OPCODE_JUMP: return go(i.dst);
        case OPCODE_BZ: if (regs[source] == 0) return go(i.dst); break;
        case OPCODE_BNZ: if (regs[source] != 0) return go(i.dst); break;
        case OPCODE_BNEG: if (regs[source] < 0) return go(i.dst); break;
        }
        pc++;
        latched = false;
    }

    // -- DMA -------------------------------------------------------------------------------------------------------
    void take_row() {
        if (load.staged || !load.outstanding || load.ready[load.head] > t) return;
        load.stage = load.data[load.head];
        load.head = (load.head + 1) % TPU_DMA_FIFO;
        load.outstanding--;
        load.staged = 1;
    }

    void move_load() {
        load_state = D_IDLE;
        if (!load.active) return;
        if (load.active == 2) { load.active = 1; return; }
        load_state = D_WAIT;
        bool request = load.left && load.outstanding + (TPU_ISSUE_REGISTERS ? 0 : load.staged) < TPU_DMA_FIFO && memory_ready(t);
        int slot = (load.head + load.outstanding) % TPU_DMA_FIFO;
        take_row();
        // With registers, this is decided in the cycle before the row is put into the scratchpad.
        if (load.staged && !in_flight(load.vmem, ~0u, TPU_ISSUE_REGISTERS) &&
            !bank_is_written(load.vmem, TPU_ISSUE_REGISTERS)) {
            m.vmem[load.vmem] = load.stage;
            load.staged = 0;
            load_state = D_MOVE;
            if (load.vmem++ == load.vmem_last) load.active = 0;
        }
        if (request) {
            load.data[slot] = m.xmem[load.xmem++];
            load.ready[slot] = t + TPU_MEMORY_LATENCY + TPU_ISSUE_REGISTERS;
            load.outstanding++;
            load.left--;
        }
    }

    void move_host() {
        int32_t row = host.first + arrived;
        if (arrived == host.count || load_state == D_MOVE || bank_is_written(row)) return;
        std::memcpy(m.vmem[row].w, host.rows + (int64_t)arrived * L, sizeof(Row));
        arrived++;
    }

    // The bank whose second read port the row stage needs, or -1.  A row that waits for the store leaves it the port.
    int port_b_bank() const {
        if (p.valid && p.opcode == OPCODE_OUTER) return ((p.b >> __builtin_ctz(PACKED / TPU_COLUMNS)) & TPU_VMEM_ROWS / 2) != 0;
        if (!p.valid || tpu_form(p.opcode) != FORM_VECTOR || p.constant) return -1;
        if (!tpu_reads_b(p.opcode) && !(p.pre == 3 && p.xlu == 3)) return -1;
        if (tpu_reads_c(p.opcode) && !beat) return -1;
        int32_t to = p.dst >> p.segment;
        if ((!p.accumulate || p.row == p.count - 1) && covers(store, to)) return -1;
        return (p.b & TPU_VMEM_ROWS / 2) != 0;
    }

    void move_store(int b_bank) {
        store_state = D_IDLE;
        if (!store.active) return;
        if (store.active == 2) { store.active = 1; return; }
        store_state = D_WAIT;
        bool space = store.outstanding < TPU_DMA_FIFO;
        int slot = (store.head + store.outstanding) % TPU_DMA_FIFO;
        bool finished = false;
        if (store.outstanding && store.ready[store.head] <= t && memory_ready(t)) {
            m.xmem[store.xmem++] = store.data[store.head];
            store.head = (store.head + 1) % TPU_DMA_FIFO;
            store.outstanding--;
            store_state = D_MOVE;
            finished = !store.left && !store.outstanding;
        }
        bool port_free = b_bank != bank(store.vmem);
        if (store.left && space && port_free && !in_flight(store.vmem, ~0u, TPU_ISSUE_REGISTERS)) {
            store.data[slot] = m.vmem[store.vmem++];
            store.ready[slot] = t + 1 + 2 * TPU_READ_REGISTERS;
            store.outstanding++;
            store.left--;
        }
        if (finished) store.active = 0;
    }

    int run(int64_t limit, Trace *trace, int64_t trace_size) {
        move_host();  // with the first word, before the first cycle
        for (t = 1;; t++) {
            if (t > limit) { c.cycles = limit; c.trap = TRAP_LIMIT; c.pc = pc; return c.trap; }
            see();
            if (!TPU_ISSUE_REGISTERS) prepare(p, false);
            int b_bank = port_b_bank();
            int load_pc = load.active ? load.pc : -1, store_pc = store.active ? store.pc : -1;
            bool finished = halting && idle();
            issue();
            sequence(x_ready());
            move_load();
            move_host();
            move_store(b_bank);
            if (trace && t <= trace_size)
                trace[t - 1] = Trace{x_state ? x_pc : -1, s_pc, load_pc, store_pc, (uint8_t)x_state, (uint8_t)s_state,
                                     (uint8_t)load_state, (uint8_t)store_state};
            if (finished) { c.cycles = t; return c.trap; }
        }
    }
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void tpu_set_function(void (*f)(int, const int32_t *, int32_t *)) { evaluate = f; }
EXPORT int64_t tpu_size() { return sizeof(Machine); }
EXPORT int64_t tpu_vmem_offset() { return offsetof(Machine, vmem); }
EXPORT int64_t tpu_weights_offset() { return offsetof(Machine, weights); }

EXPORT void tpu_program(Machine *m, const uint64_t *words, const uint8_t *illegal, int count) {
    std::memset(m->imem, 0, sizeof m->imem);
    std::memset(m->illegal, 1, sizeof m->illegal);
    std::memcpy(m->imem, words, 16ull * count);
    std::memcpy(m->illegal, illegal, count);
    for (int n = 0; n < count; n++) m->decoded[n] = tpu_decode(m->imem[n]);
}

EXPORT int tpu_run(Machine *m, int32_t *xmem, int64_t limit, Counters *counters, Trace *trace, int64_t trace_size,
                   const Stream *stream) {
    m->xmem = (Row *)xmem;
    Run run(*m);
    if (stream) run.host = *stream;
    int trap = run.run(limit, trace, trace_size);
    *counters = run.c;
    return trap;
}
