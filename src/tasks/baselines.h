// Accuracies without learning that several tasks share, fitted on `train` and measured on `test`.
#pragma once
#include "data/dataset.h"

namespace lra {

// Always the class that train has most of (of equally frequent ones the first).
double accuracy_of_majority(const Dataset& train, const Dataset& test);

// Two classes, tokens as in tasks/bytes.h: a logistic regression on how often each byte occurs, of two
// documents on how much that differs.
double bag_of_bytes(const Dataset& train, const Dataset& test);

// Square images (tasks/pixels.h): the class whose mean image over train is nearest.
double nearest_class_mean(const Dataset& train, const Dataset& test);

}  // namespace lra
