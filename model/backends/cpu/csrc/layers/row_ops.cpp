#include "layers/row_ops.h"

#include <cmath>

#include "kernels/simd.h"

namespace attentive {

namespace {

Floats sigmoid(Floats x) {
    const Floats one = fill(1.0f);
    return one / (one + exponential(fill(0.0f) - max(x, fill(-80.0f))));
}

// x / 2 * (1 + erf(x / sqrt 2)); erf after Abramowitz and Stegun 7.1.26, absolute error 1.5e-7.
Floats gelu(Floats x) {
    const Floats z = abs(x) * fill(0.70710678f);
    const Floats one = fill(1.0f), zero = fill(0.0f);
    const Floats t = one / fma(z, fill(0.3275911f), one);
    Floats p = fill(1.061405429f);
    for (const float coefficient : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f})
        p = fma(p, t, fill(coefficient));
    const Floats magnitude = one - p * t * exponential(zero - z * z);
    const Floats erf = where_negative(x, zero - magnitude, magnitude);
    return x * fill(0.5f) * (one + erf);
}

template <typename Load>
void quantize(Load load, float top, int n, Quantized* quantized, float* scale) {
    const float inverse = inverse_scale(top);
    for (int i = 0; i < n; i += kLanes)
        store_quantized(quantized + i, round_to_int8(load(i), inverse));
    *scale = forward_scale(top);
}

}  // namespace

void layer_norm(const float* x, const float* gain, const float* bias, float epsilon, int n,
                float* y) {
    Floats total = fill(0.0f);
    for (int i = 0; i < n; i += kLanes) total = total + load(x + i);
    const Floats mean = fill(sum(total) / static_cast<float>(n));
    Floats squares = fill(0.0f);
    for (int i = 0; i < n; i += kLanes) {
        const Floats d = load(x + i) - mean;
        squares = fma(d, d, squares);
    }
    const Floats factor = fill(1.0f / std::sqrt(sum(squares) / static_cast<float>(n) + epsilon));
    for (int i = 0; i < n; i += kLanes)
        store(y + i, fma((load(x + i) - mean) * factor, load(gain + i), load(bias + i)));
}

void add(float* x, const float* y, int n) {
    for (int i = 0; i < n; i += kLanes) store(x + i, load(x + i) + load(y + i));
}

void activate(Activation activation, float* x, int n) {
    for (int i = 0; i < n; i += kLanes) {
        Floats v = load(x + i);
        switch (activation) {
            case Activation::Relu: v = max(v, fill(0.0f)); break;
            case Activation::Swish: v = v * sigmoid(v); break;
            case Activation::Gelu: v = gelu(v); break;
        }
        store(x + i, v);
    }
}

void advance_state(const float* input, const float* forget, int n, float* state, float* out) {
    const Floats one = fill(1.0f), zero = fill(0.0f);
    for (int i = 0; i < n; i += kLanes) {
        const Floats kept = sigmoid(load(forget + i));
        const Floats next = fma(kept, load(state + i), (one - kept) * load(input + i));
        store(state + i, next);
        store(out + i, max(next, zero));
    }
}

float mean_sigmoid(const float* x, int n) {
    Floats total = fill(0.0f);
    for (int i = 0; i < n; i += kLanes) total = total + sigmoid(load(x + i));
    return sum(total) / static_cast<float>(n);
}

void quantize_row(const float* x, int n, Quantized* quantized, float* scale) {
    quantize([x](int i) { return load(x + i); }, max_magnitude(x, n), n, quantized, scale);
}

void relu_quantize_row(const float* x, int n, Quantized* quantized, float* scale) {
    Floats top = fill(0.0f);
    for (int i = 0; i < n; i += kLanes) top = max(top, load(x + i));
    quantize([x](int i) { return max(load(x + i), fill(0.0f)); }, largest(top), n, quantized,
             scale);
}

}  // namespace attentive
