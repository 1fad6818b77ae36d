// Sixteen lanes of float32 or int32, in one AVX-512 register, two AVX2 registers or four NEON
// registers. Operations round alike on all of them and every reduction has a fixed order, so a
// row's result depends neither on its neighbours nor on the processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#if defined(__AVX512F__)
#include "kernels/simd_avx512.h"
#elif defined(__aarch64__)
#include "kernels/simd_neon.h"
#else
#include "kernels/simd_avx2.h"
#endif

namespace attentive {

constexpr int kLanes = 16;

// e^x for x <= 88; 0 for x below -104, -inf included. Relative error about 2e-7.
inline Floats exponential(Floats x) {
    x = max(x, fill(-104.0f));
    const Floats n = round(x * fill(1.44269504f));
    Floats r = fnma(n, fill(0.693359375f), x);
    r = fnma(n, fill(-2.12194440e-4f), r);
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
inline float inverse_scale(float top) {
    return top > 0.0f ? 127.0f / top : 0.0f;
}
inline float forward_scale(float top) {
    return top / 127.0f;
}

}  // namespace attentive
