// The operations of simd.h on a NEON register of four lanes. Instructions that differ from those of
// x86 for zeros, NaN or large values are avoided, so results are equal for all values.
#pragma once

#include <arm_neon.h>

#include <cstring>

namespace attentive {

using Register = float32x4_t;
using IntRegister = int32x4_t;
constexpr int kParts = 4, kRegisters = 8;  // registers for sixteen lanes; so many such fours
struct Floats {
    float32x4_t part[kParts];
};
struct Ints {
    int32x4_t part[kParts];
};

inline float32x4_t fill_register(float x) { return vdupq_n_f32(x); }
inline float32x4_t load_register(const float* p) { return vld1q_f32(p); }
inline float32x4_t to_floats(int32x4_t v) { return vcvtq_f32_s32(v); }
inline float32x4_t load_register(const int32_t* p) { return to_floats(vld1q_s32(p)); }
inline Floats load(const int8_t* p) {
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return {to_floats(vmovl_s16(vget_low_s16(low))), to_floats(vmovl_high_s16(low)),
            to_floats(vmovl_s16(vget_low_s16(high))), to_floats(vmovl_high_s16(high))};
}
inline void store_register(float* p, float32x4_t v) { vst1q_f32(p, v); }
inline float32x4_t fma(float32x4_t x, float32x4_t y, float32x4_t z) { return vfmaq_f32(z, x, y); }
inline float32x4_t max(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
inline float32x4_t abs(float32x4_t v) { return vabsq_f32(v); }
inline float32x4_t round(float32x4_t v) { return vrndnq_f32(v); }
inline float32x4_t where_negative(float32x4_t x, float32x4_t yes, float32x4_t no) {
    return vbslq_f32(vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_f32(x), 31)), yes, no);
}
inline float32x4_t keep_first(int count, float32x4_t v, float32x4_t rest) {
    alignas(16) static constexpr int32_t kLane[4] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(vld1q_s32(kLane), vdupq_n_s32(count)), v, rest);
}
inline void store_first(int count, float* p, Floats v) {
    float all[16];
    for (int i = 0; i < kParts; ++i) vst1q_f32(all + 4 * i, v.part[i]);
    std::memcpy(p, all, count * sizeof(float));
}
// The reductions have the order of simd_sum.h.
inline float sum(float32x4_t v) { return vpadds_f32(vget_low_f32(v) + vget_high_f32(v)); }
inline float largest(float32x4_t v) {
    const float32x4_t two = max(v, vextq_f32(v, v, 2));
    const float x = vgetq_lane_f32(two, 0), y = vgetq_lane_f32(two, 1);
    return x > y ? x : y;
}
inline int32x4_t to_ints(float32x4_t v) {
    return vbslq_s32(vcaltq_f32(v, vdupq_n_f32(2147483648.0f)), vcvtnq_s32_f32(v),
                     vdupq_n_s32(INT32_MIN));
}
inline int32x4_t clamp(int32x4_t v, int low, int high) {
    return vmaxq_s32(vminq_s32(v, vdupq_n_s32(high)), vdupq_n_s32(low));
}
inline int32x4_t plus(int32x4_t v, int x) { return vaddq_s32(v, vdupq_n_s32(x)); }

// p * 2^n for p near 1 and n from -150 to 127, in two steps like simd_avx2.h.
inline float32x4_t scale_by_power(float32x4_t p, float32x4_t n) {
    const int32x4_t power = vcvtnq_s32_f32(n), half = vshrq_n_s32(power, 1);
    const auto two_to_the = [](int32x4_t e) {
        return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(e, vdupq_n_s32(127)), 23));
    };
    return p * two_to_the(half) * two_to_the(vsubq_s32(power, half));
}
inline Floats scale_by_power(Floats p, Floats n) {
    return {scale_by_power(p.part[0], n.part[0]), scale_by_power(p.part[1], n.part[1]),
            scale_by_power(p.part[2], n.part[2]), scale_by_power(p.part[3], n.part[3])};
}

inline void store_bytes(void* p, Ints v) {  // the lowest byte of each lane
    const int16x8_t low =
        vuzp1q_s16(vreinterpretq_s16_s32(v.part[0]), vreinterpretq_s16_s32(v.part[1]));
    const int16x8_t high =
        vuzp1q_s16(vreinterpretq_s16_s32(v.part[2]), vreinterpretq_s16_s32(v.part[3]));
    vst1q_s8(static_cast<int8_t*>(p),
             vuzp1q_s8(vreinterpretq_s8_s16(low), vreinterpretq_s8_s16(high)));
}

}  // namespace attentive
