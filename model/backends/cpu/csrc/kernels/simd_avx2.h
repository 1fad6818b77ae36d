// The operations of simd.h on an AVX2 register of eight lanes.
#pragma once

#include "kernels/simd_sum.h"

namespace attentive {

using Register = __m256;
using IntRegister = __m256i;
constexpr int kParts = 2, kRegisters = 8;  // registers for sixteen lanes; so many such pairs
struct Floats {
    __m256 part[kParts];
};
struct Ints {
    __m256i part[kParts];
};

inline __m256 fill_register(float x) { return _mm256_set1_ps(x); }
inline __m256 load_register(const float* p) { return _mm256_loadu_ps(p); }
inline __m256 to_floats(__m256i v) { return _mm256_cvtepi32_ps(v); }
inline __m256 load_register(const int8_t* p) {
    return to_floats(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline __m256 load_register(const int32_t* p) {
    return to_floats(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline void store_register(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
inline __m256 fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
inline __m256 max(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
inline __m256 abs(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }
inline __m256 round(__m256 v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline __m256 where_negative(__m256 x, __m256 yes, __m256 no) {
    return _mm256_blendv_ps(no, yes, x);
}
// A mask with all bits of the first `count` lanes set.
inline __m256i first_lanes(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline __m256 keep_first(int count, __m256 v, __m256 rest) {
    return _mm256_blendv_ps(rest, v, _mm256_castsi256_ps(first_lanes(count)));
}
inline void store_first(int count, float* p, Floats v) {
    _mm256_maskstore_ps(p, first_lanes(count), v.part[0]);
    _mm256_maskstore_ps(p + 8, first_lanes(count - 8), v.part[1]);
}
inline float sum(__m256 v) { return sum8(v); }
inline float largest(__m256 v) { return largest8(v); }
inline __m256i to_ints(__m256 v) { return _mm256_cvtps_epi32(v); }
inline __m256i clamp(__m256i v, int low, int high) {
    return _mm256_max_epi32(_mm256_min_epi32(v, _mm256_set1_epi32(high)), _mm256_set1_epi32(low));
}
inline __m256i plus(__m256i v, int x) { return _mm256_add_epi32(v, _mm256_set1_epi32(x)); }

// p * 2^n for p from 1/2 to 2 and n from -150 to 127. In two steps, as 2^-150 is not a float. The
// first step is exact, so subnormal results are rounded once, like those of the AVX-512
// instruction.
inline __m256 scale_in_two_steps(__m256 p, __m256 n) {
    const __m256i power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1);
    const auto two_to_the = [](__m256i e) {
        return _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_add_epi32(e, _mm256_set1_epi32(127)), 23));
    };
    return p * two_to_the(half) * two_to_the(_mm256_sub_epi32(power, half));
}
inline Floats scale_by_power(Floats p, Floats n) {
    const __m256 least = _mm256_min_ps(n.part[0], n.part[1]), limit = _mm256_set1_ps(-125.0f);
    if (_mm256_movemask_ps(_mm256_cmp_ps(least, limit, _CMP_LT_OQ))) [[unlikely]]
        return {scale_in_two_steps(p.part[0], n.part[0]), scale_in_two_steps(p.part[1], n.part[1])};
    const auto scaled = [](__m256 x, __m256 power) {  // adds to the exponent: the result is normal
        return _mm256_castsi256_ps(_mm256_add_epi32(
            _mm256_castps_si256(x), _mm256_slli_epi32(_mm256_cvtps_epi32(power), 23)));
    };
    return {scaled(p.part[0], n.part[0]), scaled(p.part[1], n.part[1])};
}

inline __m256i to_int16(Ints v) {  // -32768 to 32767
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(v.part[0], v.part[1]), 0b11011000);
}
inline void store_bytes(void* p, Ints v) {  // the lowest byte of each lane
    const __m256i byte = _mm256_set1_epi32(255);
    const __m256i words =
        to_int16({_mm256_and_si256(v.part[0], byte), _mm256_and_si256(v.part[1], byte)});
    _mm_storeu_si128(
        static_cast<__m128i*>(p),
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

}  // namespace attentive
