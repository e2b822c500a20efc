// The loss of a classifier:  loss = Σ_b −log softmax(logits[b])[labels[b]], and how often the first largest
// logit is the label's. Where a gradient will be asked for, softmax(logits) − onehot(labels) is made along
// with the loss and kept; the backward pass multiplies it by the incoming number.
#pragma once
#include <torch/types.h>

namespace lra {

using torch::Tensor;

struct CrossEntropy {
  Tensor loss;     // [], in the type of the logits
  Tensor correct;  // int64 []; not differentiable
};

// logits: [B, C] float or double, labels: int64 [B]. A label outside 0..C−1 is an error on the CPU; on CUDA,
// which cannot stop, the loss and that row's gradient are NaN.
CrossEntropy cross_entropy(const Tensor& logits, const Tensor& labels);

// From the definition, step by step.
CrossEntropy cross_entropy_reference(const Tensor& logits, const Tensor& labels);

}  // namespace lra
