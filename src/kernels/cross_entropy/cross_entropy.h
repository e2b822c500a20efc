// The loss of a classifier:  loss = Σ_b −log softmax(logits[b])[labels[b]], and how often the first largest
// logit is the label's. The gradient comes with it, scale · (softmax(logits) − onehot(labels)): the backward
// pass of a model begins at its logits.
//
//   const CrossEntropy ce = cross_entropy(logits, labels, 1.0 / rows);
//   logits.backward(ce.gradient);
#pragma once
#include <optional>

#include <torch/types.h>

namespace lra {

using torch::Tensor;

struct CrossEntropy {
  Tensor loss;           // [], in the type of the logits
  Tensor correct;        // int64 []
  Tensor gradient = {};  // [B, C], of scale · loss by the logits; undefined where no scale is given
};

// A row whose loss is not a number is not right, wherever its maximum is.
//
// logits: [B, C] float or double, labels: int64 [B]. A label outside 0..C−1 is an error on the CPU; on CUDA,
// which cannot stop, the loss and that row's gradient are NaN.
CrossEntropy cross_entropy(const Tensor& logits, const Tensor& labels, std::optional<double> scale = {});

// From the definition, step by step; the loss is differentiable.
CrossEntropy cross_entropy_reference(const Tensor& logits, const Tensor& labels);

}  // namespace lra
