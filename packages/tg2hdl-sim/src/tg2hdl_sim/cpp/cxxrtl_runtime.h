// Storage classes for designs in which one evaluation per clock edge is enough: every register is written in each
// evaluation or keeps its value, so a commit needs no comparison, and a memory write with an empty mask is dropped
// when it is queued.
#include <cxxrtl/cxxrtl.h>

namespace tg {

template <size_t Bits>
struct wire : cxxrtl::wire<Bits> {
    using cxxrtl::wire<Bits>::wire;

    template <class Observer>
    CXXRTL_ALWAYS_INLINE bool commit(Observer &) {
        this->curr = this->next;
        return false;
    }
};

template <size_t Width, size_t Ports>
struct memory : cxxrtl::memory<Width> {
    struct Pending {
        size_t index;
        cxxrtl::value<Width> word, mask;
        int priority;
    };

    Pending pending[Ports ? Ports : 1];
    size_t count = 0;

    explicit memory(size_t depth) : cxxrtl::memory<Width>(depth) {}

    CXXRTL_ALWAYS_INLINE void update(size_t index, const cxxrtl::value<Width> &word, const cxxrtl::value<Width> &mask,
                                     int priority = 0) {
        if (mask.is_zero()) return;
        size_t place = count++;
        for (; place && pending[place - 1].priority > priority; place--) pending[place] = pending[place - 1];
        pending[place] = Pending{index, word, mask, priority};
    }

    template <class Observer>
    CXXRTL_ALWAYS_INLINE bool commit(Observer &) {
        for (size_t i = 0; i < count; i++) {
            cxxrtl::value<Width> &row = this->data[pending[i].index];
            row = row.update(pending[i].word, pending[i].mask);
        }
        count = 0;
        return false;
    }
};

}  // namespace tg
