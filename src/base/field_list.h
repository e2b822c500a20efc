// Lists of fields (base/config.h) for machines and for pages.
#pragma once
#include <string>
#include <vector>

#include "base/config.h"
#include "base/json.h"

namespace lra {

Json fields_json(const std::vector<FieldInfo>& fields);
std::string markdown_cell(const std::string& text);  // of a Markdown table

}  // namespace lra
