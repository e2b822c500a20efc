// What can be configured: every key of config.yaml, from the list that reads them (train/run_config.cpp).
#pragma once
#include <string>

#include "base/json.h"

namespace lra {

// `model`: with its own section; empty: with those of all models.
std::string config_keys_text(const std::string& model);
Json config_keys_json(const std::string& model);
std::string config_page();  // docs/configuration.md (`make docs`)

}  // namespace lra
