// What happens to one row between two products: LayerNorm, residual, activation, quantisation.
#pragma once

#include <cstdint>

#include "gemm.h"

namespace attentive {

enum class Activation { Relu = 0, Swish = 1, Gelu = 2 };

// y = (x - mean) / sqrt(variance + epsilon) * gain + bias over n features; y may be x.
void layer_norm(const float* x, const float* gain, const float* bias, float epsilon, int n, float* y);

// x += y
void add(float* x, const float* y, int n);

// x = activation(x)
void activate(Activation activation, float* x, int n);

// Rounds a row to int8, as products read it, and stores its scale.
void quantize_row(const float* x, int n, Quantized* quantized, float* scale);

// The argument of the feed-forward's second product when it is int8: ReLU and quantisation in one pass over x.
void relu_quantize_row(const float* x, int n, Quantized* quantized, float* scale);

}  // namespace attentive
