// Precompiled for all tests.
#pragma once
#include <gtest/gtest.h>

#include "base/pch_torch.h"
