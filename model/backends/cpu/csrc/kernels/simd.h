// Sixteen lanes of float32 or int32, in one AVX-512 register, two AVX2 registers or four NEON
// registers: simd_avx512.h, simd_avx2.h or simd_neon.h has the operations on a register. They round
// alike everywhere and every reduction has a fixed order, so a row's result depends neither on its
// neighbours nor on the processor.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>

#if defined(__AVX512F__)
#include "kernels/simd_avx512.h"
#elif defined(__aarch64__)
#include "kernels/simd_neon.h"
#else
#include "kernels/simd_avx2.h"
#endif

namespace attentive {

constexpr int kLanes = 16, kWidth = kLanes / kParts;  // of all registers, of one

#if defined(__AVX512F__)
inline Floats fill(float x) { return fill_register(x); }
template <typename T>
inline Floats load(const T* p) {
    return load_register(p);
}
inline void store(float* p, Floats v) { store_register(p, v); }
#else
// The results of operation(i) for each register i.
template <typename Lanes = Floats, typename Operation>
inline Lanes registers(Operation&& operation) {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
        return Lanes{{operation(I)...}};
    }(std::make_integer_sequence<int, kParts>());
}
// The results of an operation on the registers of its operands.
template <typename Lanes = Floats, typename Operation, typename... Operands>
inline Lanes each(Operation operation, Operands... v) {
    return registers<Lanes>([&](int i) { return operation(v.part[i]...); });
}

inline Floats operator+(Floats a, Floats b) { return each(std::plus(), a, b); }
inline Floats operator-(Floats a, Floats b) { return each(std::minus(), a, b); }
inline Floats operator*(Floats a, Floats b) { return each(std::multiplies(), a, b); }
inline Floats operator/(Floats a, Floats b) { return each(std::divides(), a, b); }
// b if both are equal or one is NaN
inline Floats max(Floats a, Floats b) {
    return each([](auto... v) { return max(v...); }, a, b);
}
inline Floats abs(Floats v) {
    return each([](auto x) { return abs(x); }, v);
}
inline Floats round(Floats v) {
    return each([](auto x) { return round(x); }, v);
}  // half to even
inline Floats fma(Floats a, Floats b, Floats c) {  // a b + c
    return each([](auto... v) { return fma(v...); }, a, b, c);
}
inline Floats where_negative(Floats x, Floats yes, Floats no) {
    return each([](auto... v) { return where_negative(v...); }, x, yes, no);
}
// NaN and values out of range become -2^31.
inline Ints to_ints(Floats v) {
    return each<Ints>([](auto x) { return to_ints(x); }, v);
}
inline Ints clamp(Ints v, int low, int high) {
    return each<Ints>([=](auto x) { return clamp(x, low, high); }, v);
}
inline Ints plus(Ints v, int y) {
    return each<Ints>([=](auto x) { return plus(x, y); }, v);
}

inline Floats fill(float x) {
    return registers([=](int) { return fill_register(x); });
}
template <typename T>  // float, or int8_t or int32_t, which are converted
inline Floats load(const T* p) {
    return registers([=](int i) { return load_register(p + i * kWidth); });
}
inline void store(float* p, Floats v) {
    for (int i = 0; i < kParts; ++i) store_register(p + i * kWidth, v.part[i]);
}
// The first `count` lanes (0 to 16) of v, the others from `rest`.
inline Floats keep_first(int count, Floats v, Floats rest) {
    return registers(
        [&](int i) { return keep_first(count - i * kWidth, v.part[i], rest.part[i]); });
}

// Of registers 0 and 2, 1 and 3, then of 0 and 1.
template <typename Operation>
inline Register fold(Floats v, Operation&& operation) {
    if constexpr (kParts == 4)
        return operation(operation(v.part[0], v.part[2]), operation(v.part[1], v.part[3]));
    return operation(v.part[0], v.part[1]);
}
inline float sum(Floats v) {  // lanes 0 + 8, 1 + 9, ... then 0 + 4, ..., 0 + 2, 0 + 1
    return sum(fold(v, [](Register a, Register b) { return a + b; }));
}
inline float largest(Floats v) {
    return largest(fold(v, [](Register a, Register b) { return max(a, b); }));
}
#endif

// e^x for x <= 88; 0 for x below -104, -inf included. Relative error about 2e-7.
[[gnu::always_inline]] inline Floats exponential(Floats x) {
    x = max(x, fill(-104.0f));
    const Floats n = round(x * fill(1.44269504f));
    Floats r = fma(n, fill(-0.693359375f), x);
    r = fma(n, fill(2.12194440e-4f), r);
    Floats p = fill(1.0f / 720.0f);
    for (const float coefficient : {1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f})
        p = fma(p, r, fill(coefficient));
    return scale_by_power(p, n);
}

// Largest magnitude of n values, n a multiple of 16.
inline float max_magnitude(const float* x, int n) {
    Floats top = fill(0.0f);
    for (int i = 0; i < n; i += kLanes) top = max(top, abs(load(x + i)));
    return largest(top);
}

// The rounding rule of int8, also in model/quantization.py: q = round_half_even(x * (127 / top)), x
// ~ q * (top / 127), where top is max|x| of a row of activations, and of weights what
// `row_ranges` of model/int8_calibration.py returns.
inline Ints round_to_int8(Floats x, float inverse) {
    return clamp(to_ints(x * fill(inverse)), -127, 127);
}
inline float inverse_scale(float top) { return top > 0.0f ? 127.0f / top : 0.0f; }
inline float forward_scale(float top) { return top / 127.0f; }

}  // namespace attentive
