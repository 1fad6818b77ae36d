// Sixteen lanes in four NEON registers. simd_avx512.h has the same functions for one register;
// simd.h includes one of them. Instructions that differ from those of x86 for zeros, NaN or large
// values are avoided, so results are equal for all values.
#pragma once

#include <arm_neon.h>

#include <cstring>

namespace attentive {

struct Floats {
    float32x4_t a, b, c, d;
};
struct Ints {
    int32x4_t a, b, c, d;
};

constexpr int kRegisters = 8;  // of sixteen lanes, that is of four

inline Floats operator+(Floats x, Floats y) {
    return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d};
}
inline Floats operator-(Floats x, Floats y) {
    return {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d};
}
inline Floats operator*(Floats x, Floats y) {
    return {x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d};
}
inline Floats operator/(Floats x, Floats y) {
    return {x.a / y.a, x.b / y.b, x.c / y.c, x.d / y.d};
}

inline Floats fill(float x) {
    return {vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x), vdupq_n_f32(x)};
}
inline Floats load(const float* p) {
    return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
inline Floats load(const int32_t* p) {
    return {vcvtq_f32_s32(vld1q_s32(p)), vcvtq_f32_s32(vld1q_s32(p + 4)),
            vcvtq_f32_s32(vld1q_s32(p + 8)), vcvtq_f32_s32(vld1q_s32(p + 12))};
}
inline Floats load(const int8_t* p) {
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
            vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))};
}
inline void store(float* p, Floats v) {
    vst1q_f32(p, v.a);
    vst1q_f32(p + 4, v.b);
    vst1q_f32(p + 8, v.c);
    vst1q_f32(p + 12, v.d);
}

inline Floats fma(Floats x, Floats y, Floats z) {  // x y + z
    return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
            vfmaq_f32(z.d, x.d, y.d)};
}
inline Floats fnma(Floats x, Floats y, Floats z) {  // z - x y
    return {vfmsq_f32(z.a, x.a, y.a), vfmsq_f32(z.b, x.b, y.b), vfmsq_f32(z.c, x.c, y.c),
            vfmsq_f32(z.d, x.d, y.d)};
}
// The second value if both are equal or one is NaN, as on x86.
inline float32x4_t max4(float32x4_t x, float32x4_t y) {
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}
inline float32x4_t min4(float32x4_t x, float32x4_t y) {
    return vbslq_f32(vcltq_f32(x, y), x, y);
}
inline Floats max(Floats x, Floats y) {
    return {max4(x.a, y.a), max4(x.b, y.b), max4(x.c, y.c), max4(x.d, y.d)};
}
inline Floats min(Floats x, Floats y) {
    return {min4(x.a, y.a), min4(x.b, y.b), min4(x.c, y.c), min4(x.d, y.d)};
}
inline Floats abs(Floats v) {
    return {vabsq_f32(v.a), vabsq_f32(v.b), vabsq_f32(v.c), vabsq_f32(v.d)};
}
inline Floats round(Floats v) {
    return {vrndnq_f32(v.a), vrndnq_f32(v.b), vrndnq_f32(v.c), vrndnq_f32(v.d)};
}  // half to even

// p * 2^n for p near 1 and n from -150 to 127, in two steps like simd_avx2.h.
inline float32x4_t scale_by_power4(float32x4_t p, float32x4_t n) {
    const int32x4_t power = vcvtnq_s32_f32(n), half = vshrq_n_s32(power, 1);
    const auto two_to_the = [](int32x4_t e) {
        return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(e, vdupq_n_s32(127)), 23));
    };
    return p * two_to_the(half) * two_to_the(vsubq_s32(power, half));
}
inline Floats scale_by_power(Floats p, Floats n) {
    return {scale_by_power4(p.a, n.a), scale_by_power4(p.b, n.b), scale_by_power4(p.c, n.c),
            scale_by_power4(p.d, n.d)};
}

inline float32x4_t where_negative4(float32x4_t x, float32x4_t yes, float32x4_t no) {
    return vbslq_f32(vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_f32(x), 31)), yes, no);
}
inline Floats where_negative(Floats x, Floats yes, Floats no) {
    return {where_negative4(x.a, yes.a, no.a), where_negative4(x.b, yes.b, no.b),
            where_negative4(x.c, yes.c, no.c), where_negative4(x.d, yes.d, no.d)};
}
// The first `count` lanes (0 to 16) of v, the others from `rest`.
inline Floats keep_first(int count, Floats v, Floats rest) {
    alignas(16) static constexpr int32_t kLane[4] = {0, 1, 2, 3};
    const int32x4_t lane = vld1q_s32(kLane);
    const auto kept = [&](int first) { return vcltq_s32(lane, vdupq_n_s32(count - first)); };
    return {vbslq_f32(kept(0), v.a, rest.a), vbslq_f32(kept(4), v.b, rest.b),
            vbslq_f32(kept(8), v.c, rest.c), vbslq_f32(kept(12), v.d, rest.d)};
}
inline void store_first(int count, float* p, Floats v) {
    float all[16];
    store(all, v);
    std::memcpy(p, all, count * sizeof(float));
}

// Reductions in the order of simd_sum.h.
inline float sum(Floats v) {
    const float32x4_t four = (v.a + v.c) + (v.b + v.d);
    return vpadds_f32(vget_low_f32(four) + vget_high_f32(four));
}
inline float largest(Floats v) {
    const float32x4_t four = max4(max4(v.a, v.c), max4(v.b, v.d)),
                      two = max4(four, vextq_f32(four, four, 2));
    const float x = vgetq_lane_f32(two, 0), y = vgetq_lane_f32(two, 1);
    return x > y ? x : y;
}

// NaN and values out of range become -2^31, as on x86.
inline int32x4_t to_ints4(float32x4_t v) {
    return vbslq_s32(vcaltq_f32(v, vdupq_n_f32(2147483648.0f)), vcvtnq_s32_f32(v),
                     vdupq_n_s32(INT32_MIN));
}
inline Ints to_ints(Floats v) {
    return {to_ints4(v.a), to_ints4(v.b), to_ints4(v.c), to_ints4(v.d)};
}
inline Ints clamp(Ints v, int low, int high) {
    const int32x4_t least = vdupq_n_s32(low), most = vdupq_n_s32(high);
    const auto bounded = [&](int32x4_t x) { return vmaxq_s32(vminq_s32(x, most), least); };
    return {bounded(v.a), bounded(v.b), bounded(v.c), bounded(v.d)};
}
inline void store_bytes(void* p, Ints v) {  // the lowest byte of each lane
    const int16x8_t low = vuzp1q_s16(vreinterpretq_s16_s32(v.a), vreinterpretq_s16_s32(v.b));
    const int16x8_t high = vuzp1q_s16(vreinterpretq_s16_s32(v.c), vreinterpretq_s16_s32(v.d));
    vst1q_s8(static_cast<int8_t*>(p),
             vuzp1q_s8(vreinterpretq_s8_s16(low), vreinterpretq_s8_s16(high)));
}

}  // namespace attentive
