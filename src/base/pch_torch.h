// Precompiled for the rooms that work with tensors: 25 s once, then about 3 s a file.
#pragma once
#include <torch/nn/module.h>
#include <torch/types.h>

#include "base/pch_plain.h"
