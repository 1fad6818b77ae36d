// Calls functions of the CPU backend for another process (tests/support/processors/arm_emulation.py), until standard input ends. A call is a
// sequence of int64: the number of the function; the number of buffers and their sizes; the number of arguments, each either (0, value)
// or (1, number of a buffer); the number of pointers inside buffers, each as (buffer, offset, buffer pointed to); then the contents of
// the buffers. The answer is the result and the contents of the buffers after the call.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
void attentive_create();  // the signatures are in bindings.py
void attentive_destroy();
void attentive_linear();
void attentive_vector();
void attentive_resolve();
void attentive_prefill();
void attentive_restrict();
void attentive_step();
void attentive_forced_decode();
void attentive_read_words();
void attentive_multi_step();
void attentive_reorder();
void attentive_free();
void attentive_add_common();
void attentive_forced_steps();
const char* attentive_isa();
const char* attentive_error();
}

namespace {

void copy_isa(char* text) { std::strcpy(text, attentive_isa()); }
void copy_error(char* text) { std::strncpy(text, attentive_error(), 255); }

using Function = int64_t (*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                             int64_t, int64_t);

// Integers and pointers of any size take one register or eight bytes of the stack each.
template <typename Typed>
Function untyped(Typed* function) {
    return reinterpret_cast<Function>(function);
}

const Function kFunctions[] = {
    untyped(attentive_create),   untyped(attentive_destroy),       untyped(attentive_linear),     untyped(attentive_vector),
    untyped(attentive_resolve),  untyped(attentive_prefill),       untyped(attentive_restrict),   untyped(attentive_step),
    untyped(attentive_forced_decode), untyped(attentive_read_words), untyped(attentive_multi_step), untyped(attentive_reorder),
    untyped(attentive_free),     untyped(copy_isa),                untyped(copy_error),
    untyped(attentive_add_common),    untyped(attentive_forced_steps),
};

void read(void* to, size_t bytes) {
    if (bytes && std::fread(to, bytes, 1, stdin) != 1) std::exit(0);
}

int64_t number() {
    int64_t value;
    read(&value, sizeof value);
    return value;
}

void call() {
    const Function function = kFunctions[number()];
    std::vector<std::vector<char>> buffers(number());
    for (auto& buffer : buffers) buffer.resize(number() + 64);  // an array without elements has an address too
    const auto address = [&](int64_t index) { return reinterpret_cast<int64_t>(buffers[index].data()); };
    int64_t arguments[13] = {};
    const int64_t count = number();
    for (int64_t i = 0; i < count; ++i) {
        const bool pointer = number() != 0;
        const int64_t value = number();
        arguments[i] = pointer ? address(value) : value;
    }
    std::vector<int64_t> pointers(3 * number());
    for (int64_t& value : pointers) value = number();
    for (auto& buffer : buffers) read(buffer.data(), buffer.size() - 64);
    for (size_t i = 0; i < pointers.size(); i += 3) {
        const int64_t target = address(pointers[i + 2]);
        std::memcpy(buffers[pointers[i]].data() + pointers[i + 1], &target, sizeof target);
    }
    const int64_t* a = arguments;
    const int64_t result = function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12]);
    std::fwrite(&result, sizeof result, 1, stdout);
    for (const auto& buffer : buffers) std::fwrite(buffer.data(), 1, buffer.size() - 64, stdout);
    std::fflush(stdout);
}

}  // namespace

int main() {
    for (;;) call();
}
