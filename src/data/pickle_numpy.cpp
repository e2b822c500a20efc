// What NumPy needs of a pickle besides plain values:
//
//   _reconstruct(ndarray, (0,), 'b')                        an empty array
//   BUILD (1, shape, dtype, fortran order, bytes)           its contents
//   dtype('u1', 0, 1)  BUILD (3, '|', None, …)              the type of a byte
//   _codecs.encode('…', 'latin1')                           bytes, as Python 3 writes them for Python 2
#include "base/error.h"
#include "data/pickle_machine.h"

namespace lra {
namespace {

// What a kOther stands for.
enum Role : int64_t { kReconstruct, kArrayType, kDtypeType, kEncode, kByteType };

struct Global {
  std::string_view module, name;
  Role role;
};
constexpr Global kGlobals[] = {{"numpy.core.multiarray", "_reconstruct", kReconstruct},
                               {"numpy._core.multiarray", "_reconstruct", kReconstruct},
                               {"numpy", "ndarray", kArrayType},
                               {"numpy", "dtype", kDtypeType},
                               {"_codecs", "encode", kEncode}};

bool is(const PickleValue& value, Role role) {
  return value.kind == PickleValue::Kind::kOther && value.number == role;
}
bool is_text(const PickleValue& value) {
  return value.kind == PickleValue::Kind::kBytes || value.kind == PickleValue::Kind::kString;
}

}  // namespace

void PickleMachine::push_global(std::string_view module, std::string_view name) {
  for (const Global& g : kGlobals) {
    if (g.module == module && g.name == name) return push_number(Kind::kOther, g.role);
  }
  std::string shown;
  for (const char c : fmt::format("{}.{}", module.substr(0, 60), name.substr(0, 60))) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  refuse(fmt::format("it asks for '{}', which plain data does not need and which is never called", shown));
}

std::string PickleMachine::latin1(std::string_view utf8) {
  made_bytes_ += utf8.size();
  if (made_bytes_ > bytes_.size()) refuse("the same text is decoded again and again");
  std::string out;
  out.reserve(utf8.size());
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    const auto next = i + 1 < utf8.size() ? static_cast<unsigned char>(utf8[i + 1]) : 0u;
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if ((c == 0xC2 || c == 0xC3) && (next & 0xC0) == 0x80) {
      out += static_cast<char>((c & 3u) << 6 | (next & 0x3Fu));
      ++i;
    } else {
      refuse("text that is not Latin-1");
    }
  }
  return out;
}

PickleValue* PickleMachine::reduce(const PickleValue& function, const PickleValue& arguments) {
  const auto& items = arguments.items;
  if (arguments.kind != Kind::kTuple) refuse("a call whose arguments are no tuple");
  if (is(function, kReconstruct) && items.size() == 3 && is(*items[0], kArrayType)) return make(Kind::kArray);
  if (is(function, kDtypeType) && !items.empty() && is_text(*items[0])) {
    if (items[0]->bytes != "u1")
      refuse(fmt::format("an array of type '{}', 'u1' was expected", items[0]->bytes.substr(0, 20)));
    PickleValue* type = make(Kind::kOther);
    type->number = kByteType;
    return type;
  }
  if (is(function, kEncode) && items.size() == 2 && is_text(*items[0]) && is_text(*items[1]) &&
      items[1]->bytes == "latin1") {
    PickleValue* bytes = make(Kind::kBytes);
    bytes->bytes = pickle_.made_.emplace_back(latin1(items[0]->bytes));
    return bytes;
  }
  refuse("a call that is none of NumPy's for an array of bytes");
}

void PickleMachine::build(PickleValue& object, const PickleValue& state) {
  if (state.kind != Kind::kTuple) refuse("a state that is no tuple");
  if (is(object, kByteType)) return;  // byte order and the like: a byte has none
  const auto& items = state.items;
  if (object.kind != Kind::kArray || items.size() != 5 || items[0]->kind != Kind::kInt ||
      items[1]->kind != Kind::kTuple || items[3]->kind != Kind::kBool || !is_text(*items[4])) {
    refuse("a state that is not an array's");
  }
  if (!is(*items[2], kByteType)) refuse("an array of another type than bytes");
  if (items[3]->number != 0) refuse("an array in Fortran order");
  if (!object.shape.empty()) refuse("an array that is filled twice");
  uint64_t count = 1;
  for (const PickleValue* side : items[1]->items) {
    if (side->kind != Kind::kInt || side->number < 0) refuse("a shape that is none");
    if (side->number > 0 && count > items[4]->bytes.size() / static_cast<uint64_t>(side->number))
      count = ~uint64_t{0};
    if (count != ~uint64_t{0}) count *= static_cast<uint64_t>(side->number);
    object.shape.push_back(side->number);
  }
  if (object.shape.empty() || object.shape.size() > 8 || count != items[4]->bytes.size()) {
    refuse(fmt::format("an array whose shape does not fit its {} bytes", items[4]->bytes.size()));
  }
  object.bytes = items[4]->bytes;
}

}  // namespace lra
