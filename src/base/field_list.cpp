#include "base/field_list.h"

namespace lra {

Json fields_json(const std::vector<FieldInfo>& fields) {
  Json list = Json::array();
  for (const auto& f : fields) {
    list.push_back(
        {{"key", f.key}, {"type", f.type}, {"default", f.value}, {"range", f.range}, {"help", f.help}});
  }
  return list;
}

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace lra
