#include "rows.h"

#include <cmath>

#include "simd.h"

namespace attentive {

namespace {

__m512 sigmoid(__m512 x) {
    const __m512 e = exp512(_mm512_min_ps(_mm512_sub_ps(_mm512_setzero_ps(), x), _mm512_set1_ps(80.0f)));
    return _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

// x / 2 * (1 + erf(x / sqrt 2)); erf after Abramowitz and Stegun 7.1.26, absolute error 1.5e-7.
__m512 gelu(__m512 x) {
    const __m512 z = _mm512_mul_ps(_mm512_abs_ps(x), _mm512_set1_ps(0.70710678f));
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(z, _mm512_set1_ps(0.3275911f), one));
    __m512 p = _mm512_set1_ps(1.061405429f);
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(-1.453152027f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(1.421413741f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(-0.284496736f));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.254829592f));
    const __m512 tail = _mm512_mul_ps(_mm512_mul_ps(p, t), exp512(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_mul_ps(z, z))));
    const __m512 magnitude = _mm512_sub_ps(one, tail);
    const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    const __m512 erf = _mm512_mask_sub_ps(magnitude, negative, _mm512_setzero_ps(), magnitude);
    return _mm512_mul_ps(_mm512_mul_ps(x, _mm512_set1_ps(0.5f)), _mm512_add_ps(one, erf));
}

template <typename Load>
void quantize(Load load, float top, int n, uint8_t* quantized, float* scale) {
    const float inverse = inverse_scale(top);
    const __m512i offset = _mm512_set1_epi32(128);
    for (int i = 0; i < n; i += 16) {
        const __m512i q = _mm512_add_epi32(round_to_int8(load(i), inverse), offset);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(quantized + i), _mm512_cvtepi32_epi8(q));
    }
    *scale = forward_scale(top);
}

}  // namespace

void layer_norm(const float* x, const float* gain, const float* bias, float epsilon, int n, float* y) {
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) sum = _mm512_add_ps(sum, _mm512_loadu_ps(x + i));
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / static_cast<float>(n));
    __m512 squares = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) {
        const __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
        squares = _mm512_fmadd_ps(d, d, squares);
    }
    const __m512 factor = _mm512_set1_ps(1.0f / std::sqrt(_mm512_reduce_add_ps(squares) / static_cast<float>(n) + epsilon));
    for (int i = 0; i < n; i += 16) {
        const __m512 d = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + i), mean), factor);
        _mm512_storeu_ps(y + i, _mm512_fmadd_ps(d, _mm512_loadu_ps(gain + i), _mm512_loadu_ps(bias + i)));
    }
}

void add(float* x, const float* y, int n) {
    for (int i = 0; i < n; i += 16) _mm512_storeu_ps(x + i, _mm512_add_ps(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
}

void activate(Activation activation, float* x, int n) {
    for (int i = 0; i < n; i += 16) {
        __m512 v = _mm512_loadu_ps(x + i);
        switch (activation) {
            case Activation::Relu: v = _mm512_max_ps(v, _mm512_setzero_ps()); break;
            case Activation::Swish: v = _mm512_mul_ps(v, sigmoid(v)); break;
            case Activation::Gelu: v = gelu(v); break;
        }
        _mm512_storeu_ps(x + i, v);
    }
}

void quantize_row(const float* x, int n, uint8_t* quantized, float* scale) {
    quantize([x](int i) { return _mm512_loadu_ps(x + i); }, max_magnitude(x, n), n, quantized, scale);
}

void relu_quantize_row(const float* x, int n, uint8_t* quantized, float* scale) {
    __m512 top = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) top = _mm512_max_ps(top, _mm512_loadu_ps(x + i));
    const auto load = [x](int i) { return _mm512_max_ps(_mm512_loadu_ps(x + i), _mm512_setzero_ps()); };
    quantize(load, _mm512_reduce_max_ps(top), n, quantized, scale);
}

}  // namespace attentive
