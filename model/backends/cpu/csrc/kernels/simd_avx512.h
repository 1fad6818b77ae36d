// The operations of simd.h on an AVX-512 register of sixteen lanes.
#pragma once

#include "kernels/simd_sum.h"

namespace attentive {

using Register = __m512;
using IntRegister = __m512i;
constexpr int kParts = 1, kRegisters = 32;
using Floats = Register;  // the compiler gives it + - * /
using Ints = IntRegister;

inline __m512 fill_register(float x) { return _mm512_set1_ps(x); }
inline __m512 load_register(const float* p) { return _mm512_loadu_ps(p); }
inline __m512 to_floats(__m512i v) { return _mm512_cvtepi32_ps(v); }
inline __m512 load_register(const int8_t* p) {
    return to_floats(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline __m512 load_register(const int32_t* p) { return to_floats(_mm512_loadu_si512(p)); }
inline void store_register(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
inline __m512 fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
inline __m512 max(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
inline __m512 abs(__m512 v) { return _mm512_abs_ps(v); }
inline __m512 round(__m512 v) { return _mm512_roundscale_ps(v, 0); }
inline Floats scale_by_power(Floats p, Floats n) {  // p * 2^n
    return _mm512_scalef_ps(p, n);
}
inline __m512 where_negative(__m512 x, __m512 yes, __m512 no) {
    return _mm512_mask_mov_ps(no, _mm512_movepi32_mask(_mm512_castps_si512(x)), yes);
}
inline __m512 keep_first(int count, __m512 v, __m512 rest) {
    return _mm512_mask_mov_ps(rest, static_cast<__mmask16>((1u << count) - 1), v);
}
inline void store_first(int count, float* p, __m512 v) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), v);
}
inline float sum(__m512 v) {
    return sum8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
inline float largest(__m512 v) {
    return largest8(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}
inline __m512i to_ints(__m512 v) { return _mm512_cvtps_epi32(v); }
inline __m512i clamp(__m512i v, int low, int high) {
    return _mm512_max_epi32(_mm512_min_epi32(v, _mm512_set1_epi32(high)), _mm512_set1_epi32(low));
}
inline __m512i plus(__m512i v, int x) { return _mm512_add_epi32(v, _mm512_set1_epi32(x)); }
inline void store_bytes(void* p, Ints v) {  // the lowest byte of each lane
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}

}  // namespace attentive
