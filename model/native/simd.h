// AVX-512 building blocks. Every reduction has a fixed order, so a row's result never depends on its neighbours.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace attentive {

// acc[i] += sum of four u8 * s8 products. Inline assembly keeps the accumulators of a tile in registers:
// with the intrinsic GCC 12 stores them to the stack in every iteration.
inline __m512i dot_u8s8(__m512i acc, __m512i unsigned_bytes, __m512i signed_bytes) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(unsigned_bytes), "v"(signed_bytes));
    return acc;
}

// e^x for x <= 88; below -104 it is 0 (-inf included). Relative error about 2e-7.
inline __m512 exp512(__m512 x) {
    x = _mm512_max_ps(x, _mm512_set1_ps(-104.0f));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.0f / 720.0f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

// Sixteen elements as float32, from float32 or from int8.
inline __m512 load16(const float* p) { return _mm512_loadu_ps(p); }
inline __m512 load16(const int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

// Largest magnitude of n values, n a multiple of 16.
inline float max_magnitude(const float* x, int n) {
    __m512 top = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) top = _mm512_max_ps(top, _mm512_abs_ps(_mm512_loadu_ps(x + i)));
    return _mm512_reduce_max_ps(top);
}

// The one rounding rule of int8 here (and in model/quantization.py): q = round_half_even(x * (127 / max|x|)), x ~ q * (max|x| / 127).
inline __m512i round_to_int8(__m512 x, float inverse) {
    const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(inverse)));
    return _mm512_max_epi32(_mm512_min_epi32(q, _mm512_set1_epi32(127)), _mm512_set1_epi32(-127));
}
inline float inverse_scale(float top) { return top > 0.0f ? 127.0f / top : 0.0f; }
inline float forward_scale(float top) { return top / 127.0f; }

}  // namespace attentive
