// Sixteen lanes in two AVX2 registers. simd_avx512.h has the same functions for one register;
// simd.h includes one of them.
#pragma once

#include "kernels/simd_sum.h"

namespace attentive {

struct Floats {
    __m256 low, high;
};
struct Ints {
    __m256i low, high;
};

inline Floats operator+(Floats a, Floats b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Floats operator-(Floats a, Floats b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Floats operator*(Floats a, Floats b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Floats operator/(Floats a, Floats b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}

constexpr int kRegisters = 8;  // of sixteen lanes, that is of pairs

inline Floats fill(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline Floats load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline __m256 load8(const int8_t* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Floats load(const int8_t* p) {
    return {load8(p), load8(p + 8)};
}
inline Floats load(const int32_t* p) {
    const __m256i* half = reinterpret_cast<const __m256i*>(p);
    return {_mm256_cvtepi32_ps(_mm256_loadu_si256(half)),
            _mm256_cvtepi32_ps(_mm256_loadu_si256(half + 1))};
}
inline void store(float* p, Floats v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
}

inline Floats fma(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats fnma(Floats a, Floats b, Floats c) {
    return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
inline Floats max(Floats a, Floats b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Floats min(Floats a, Floats b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline Floats abs(Floats v) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, v.low), _mm256_andnot_ps(sign, v.high)};
}
inline Floats round(Floats v) {  // half to even
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(v.low, kNearest), _mm256_round_ps(v.high, kNearest)};
}

// p * 2^n for p from 1/2 to 2 and n from -150 to 127. In two steps, as 2^-150 is not a float. The
// first step is exact, so subnormal results are rounded once, like those of the AVX-512
// instruction.
inline __m256 scale_by_power8(__m256 p, __m256 n) {
    const __m256i power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1);
    const auto two_to_the = [](__m256i e) {
        return _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
    };
    return _mm256_mul_ps(_mm256_mul_ps(p, two_to_the(half)),
                         two_to_the(_mm256_sub_epi32(power, half)));
}
inline Floats scale_by_power(Floats p, Floats n) {
    const __m256 least = _mm256_min_ps(n.low, n.high), limit = _mm256_set1_ps(-125.0f);
    if (_mm256_movemask_ps(_mm256_cmp_ps(least, limit, _CMP_LT_OQ))) [[unlikely]]
        return {scale_by_power8(p.low, n.low), scale_by_power8(p.high, n.high)};
    const auto scaled = [](__m256 x, __m256 power) {  // adds to the exponent: the result is normal
        return _mm256_castsi256_ps(_mm256_add_epi32(
            _mm256_castps_si256(x), _mm256_slli_epi32(_mm256_cvtps_epi32(power), 23)));
    };
    return {scaled(p.low, n.low), scaled(p.high, n.high)};
}

inline Floats where_negative(Floats x, Floats yes, Floats no) {
    return {_mm256_blendv_ps(no.low, yes.low, x.low), _mm256_blendv_ps(no.high, yes.high, x.high)};
}
// A mask with all bits of the first `count` lanes set.
inline Ints first_lanes(int count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return {_mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane),
            _mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), lane)};
}
// The first `count` lanes (0 to 16) of v, the others from `rest`.
inline Floats keep_first(int count, Floats v, Floats rest) {
    const Ints kept = first_lanes(count);
    return {_mm256_blendv_ps(rest.low, v.low, _mm256_castsi256_ps(kept.low)),
            _mm256_blendv_ps(rest.high, v.high, _mm256_castsi256_ps(kept.high))};
}
inline void store_first(int count, float* p, Floats v) {
    const Ints kept = first_lanes(count);
    _mm256_maskstore_ps(p, kept.low, v.low);
    _mm256_maskstore_ps(p + 8, kept.high, v.high);
}

inline float sum(Floats v) {
    return sum8(_mm256_add_ps(v.low, v.high));
}
inline float largest(Floats v) {
    return largest8(_mm256_max_ps(v.low, v.high));
}

inline Ints to_ints(Floats v) {
    return {_mm256_cvtps_epi32(v.low), _mm256_cvtps_epi32(v.high)};
}
inline Ints clamp(Ints v, int low, int high) {
    const __m256i least = _mm256_set1_epi32(low), most = _mm256_set1_epi32(high);
    return {_mm256_max_epi32(_mm256_min_epi32(v.low, most), least),
            _mm256_max_epi32(_mm256_min_epi32(v.high, most), least)};
}
inline Ints plus(Ints v, int x) {
    return {_mm256_add_epi32(v.low, _mm256_set1_epi32(x)),
            _mm256_add_epi32(v.high, _mm256_set1_epi32(x))};
}
inline __m256i to_int16(Ints v) {
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(v.low, v.high), 0b11011000);
}  // -32768 to 32767
inline void store_bytes(void* p, Ints v) {  // the lowest byte of each lane
    const __m256i byte = _mm256_set1_epi32(255);
    const __m256i words = to_int16({_mm256_and_si256(v.low, byte), _mm256_and_si256(v.high, byte)});
    _mm_storeu_si128(
        static_cast<__m128i*>(p),
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

}  // namespace attentive
