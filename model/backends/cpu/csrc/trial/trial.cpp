// A program that tries the matrix products of one instruction set: compares them with plain C++ and
// prints the nanoseconds that a row takes. The exit status is 1 if a bit differs. `--isa auto` uses
// the fastest instruction set whose products are right.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

#include "layers/linear.h"

using namespace attentive;

namespace {

constexpr int kIn = 512, kOut = 512, kMost = 64;

// Pseudo-random numbers that are the same everywhere (Knuth's linear congruential generator), from
// -127 to 127.
int next_value(uint64_t& state) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state >> 33) % 255) - 127;
}

struct Case {
    std::vector<float> weight, ranges, bias, scales, values;
    std::vector<int8_t> activations;
    Buffer quantized;
};

// `largest`: all products are 127 * 127, the largest sums. Otherwise random.
Case make_case(bool largest) {
    uint64_t state = 1;
    Case made{std::vector<float>(kOut * kIn),
              std::vector<float>(kOut),
              std::vector<float>(kOut),
              std::vector<float>(kMost),
              std::vector<float>(kMost * kIn),
              std::vector<int8_t>(kMost * kIn),
              Buffer(kMost * kIn * sizeof(Quantized) + kDepthStep)};
    for (int n = 0; n < kOut; ++n) {  // scales of outputs are powers of two: weights are exact
        made.ranges[n] = 127.0f * std::ldexp(1.0f, -n % 5);
        made.bias[n] = next_value(state) / 64.0f;
        for (int k = 0; k < kIn; ++k) {
            made.weight[n * kIn + k] =
                (largest ? (n % 2 ? 127 : -127) : next_value(state)) * (made.ranges[n] / 127.0f);
        }
    }
    for (int row = 0; row < kMost; ++row) {
        made.scales[row] = 1.0f / (row + 3);
        for (int k = 0; k < kIn; k += kLanes) {
            alignas(64) int32_t lanes[kLanes];
            for (int i = 0; i < kLanes; ++i) {
                lanes[i] = largest ? 127 : next_value(state);
                made.activations[row * kIn + k + i] = static_cast<int8_t>(lanes[i]);
                made.values[row * kIn + k + i] = lanes[i] / 16.0f;
            }
            store_quantized(made.quantized.as<Quantized>() + row * kIn + k,
                            round_to_int8(load(lanes), 1.0f));
        }
    }
    return made;
}

// The product of plain C++.
float expected(const Case& made, Precision precision, int row, int n) {
    if (precision == Precision::Int8) {
        int32_t sum = 0;
        for (int k = 0; k < kIn; ++k) {
            sum += made.activations[row * kIn + k] *
                   static_cast<int>(made.weight[n * kIn + k] / (made.ranges[n] / 127.0f));
        }
        return std::fmaf(static_cast<float>(sum), made.scales[row] * (made.ranges[n] / 127.0f),
                         made.bias[n]);
    }
    float sum = made.bias[n];
    for (int k = 0; k < kIn; ++k)
        sum = std::fmaf(made.values[row * kIn + k], made.weight[n * kIn + k], sum);
    return sum;
}

void multiply(const Linear& linear, const Rows& rows, int count, float* out) {
    for (int panel = 0; panel < linear.panels(); ++panel)
        linear.panel(rows, panel, panel + 1, 0, count, out + panel * kPanel, kOut);
}

bool equal(const Case& made, Precision precision, const Linear& linear, const Rows& rows) {
    std::vector<float> out(kMost * kOut);
    for (const int count : {1, 5, 17, kMost}) {
        std::fill(out.begin(), out.end(), NAN);
        multiply(linear, rows, count, out.data());
        for (int row = 0; row < count; ++row) {
            for (int n = 0; n < kOut; ++n) {
                const float right = expected(made, precision, row, n);
                if (std::memcmp(&right, &out[row * kOut + n], sizeof right) != 0) return false;
            }
        }
    }
    return true;
}

// Nanoseconds of a row, summed over numbers of rows that decode together: the least of some
// repetitions.
double nanoseconds(const Linear& linear, const Rows& rows) {
    std::vector<float> out(kMost * kOut);
    double total = 0;
    for (const int count : {1, 8, 32, kMost}) {
        double least = INFINITY;
        for (int i = 0; i < 30; ++i) {
            const auto begun = std::chrono::steady_clock::now();
            multiply(linear, rows, count, out.data());
            least = std::min(least, std::chrono::duration<double, std::nano>(
                                        std::chrono::steady_clock::now() - begun)
                                        .count());
        }
        total += least / count;
    }
    return total;
}

}  // namespace

int main() {
#if defined(__AMX_INT8__)
    syscall(SYS_arch_prctl, 0x1023, 18);  // permission for the tile registers, see isa.py
#endif
    [[maybe_unused]] const MatrixUnit unit{};
    double time = 0;
    for (const bool largest : {true, false}) {
        const Case made = make_case(largest);
        for (const Precision precision : {Precision::Float32, Precision::Int8}) {
            Arena arena;
            const bool int8 = precision == Precision::Int8;
            const Linear linear(precision, made.weight.data(), int8 ? made.ranges.data() : nullptr,
                                made.bias.data(), kOut, kIn, arena);
            const Rows rows{made.values.data(), made.quantized.as<Quantized>(), made.scales.data(),
                            kIn};
            if (!equal(made, precision, linear, rows)) return 1;
            if (int8) time = nanoseconds(linear, rows);
        }
    }
    std::printf("%.0f\n", time);
    return 0;
}
