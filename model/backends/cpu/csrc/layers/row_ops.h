// Operations on one row between two products: LayerNorm, residual, activation, quantisation.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"

namespace attentive {

enum class Activation { Relu = 0, Swish = 1, Gelu = 2 };

// y = (x - mean) / sqrt(variance + epsilon) * gain + bias over n features; y may be x.
void layer_norm(const float* x, const float* gain, const float* bias, float epsilon, int n,
                float* y);

// x += y
void add(float* x, const float* y, int n);

// x = activation(x)
void activate(Activation activation, float* x, int n);

// One step of a recurrence over n features (`SSRU` of model/layers.py): with f = sigmoid(forget),
// state = f state + (1 - f) input; out = relu(state).
void advance_state(const float* input, const float* forget, int n, float* state, float* out);

// The mean of sigmoid(x).
float mean_sigmoid(const float* x, int n);

// Quantises a row to int8 in the format of gemm.h and stores its scale.
void quantize_row(const float* x, int n, Quantized* quantized, float* scale);

// ReLU and quantisation in one pass: the input of the second feed-forward product in int8.
void relu_quantize_row(const float* x, int n, Quantized* quantized, float* scale);

}  // namespace attentive
