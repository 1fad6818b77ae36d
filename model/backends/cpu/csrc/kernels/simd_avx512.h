// Sixteen lanes in one AVX-512 register. simd_avx2.h has the same functions for two registers;
// simd.h includes one of them.
#pragma once

#include "kernels/simd_sum.h"

namespace attentive {

using Floats = __m512;  // the compiler gives it + - * /
struct Ints {
    __m512i lanes;
};

constexpr int kRegisters = 32;

inline Floats fill(float x) {
    return _mm512_set1_ps(x);
}
inline Floats load(const float* p) {
    return _mm512_loadu_ps(p);
}
inline Floats load(const int8_t* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline Floats load(const int32_t* p) {
    return _mm512_cvtepi32_ps(_mm512_loadu_si512(p));
}
inline void store(float* p, Floats v) {
    _mm512_storeu_ps(p, v);
}

inline Floats fma(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_ps(a, b, c);
}  // a b + c
inline Floats fnma(Floats a, Floats b, Floats c) {
    return _mm512_fnmadd_ps(a, b, c);
}  // c - a b
inline Floats max(Floats a, Floats b) {
    return _mm512_max_ps(a, b);
}
inline Floats min(Floats a, Floats b) {
    return _mm512_min_ps(a, b);
}
inline Floats abs(Floats v) {
    return _mm512_abs_ps(v);
}
inline Floats round(Floats v) {
    return _mm512_roundscale_ps(v, 0);
}  // half to even
inline Floats scale_by_power(Floats p, Floats n) {
    return _mm512_scalef_ps(p, n);
}  // p * 2^n
inline Floats where_negative(Floats x, Floats yes, Floats no) {
    return _mm512_mask_mov_ps(no, _mm512_movepi32_mask(_mm512_castps_si512(x)), yes);
}
// The first `count` lanes (0 to 16) of v, the others from `rest`.
inline Floats keep_first(int count, Floats v, Floats rest) {
    return _mm512_mask_mov_ps(rest, static_cast<__mmask16>((1u << count) - 1), v);
}
inline void store_first(int count, float* p, Floats v) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), v);
}

inline float sum(Floats v) {
    return sum8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
inline float largest(Floats v) {
    return largest8(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

inline Ints to_ints(Floats v) {
    return {_mm512_cvtps_epi32(v)};
}
inline Ints clamp(Ints v, int low, int high) {
    return {_mm512_max_epi32(_mm512_min_epi32(v.lanes, _mm512_set1_epi32(high)),
                             _mm512_set1_epi32(low))};
}
inline Ints plus(Ints v, int x) {
    return {_mm512_add_epi32(v.lanes, _mm512_set1_epi32(x))};
}
inline void store_bytes(void* p, Ints v) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v.lanes));
}  // lowest of each

}  // namespace attentive
