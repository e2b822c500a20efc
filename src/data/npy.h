// Tables of strings as Pathfinder's metadata files hold them. The published files are called .npy but are
// plain text, one row a line with blanks between; the generator itself writes real NumPy files. Both are
// read:
//
//   \x93NUMPY, version 1 to 3, header {'descr': '|S25' or '<U25', 'fortran_order': …, 'shape': (rows,
//   columns)}
//
// with one or two axes (one axis: rows of one string). Anything else, object arrays above all, is refused.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lra {

using StringTable = std::vector<std::vector<std::string>>;

// Errors name `place` and the line, or the byte.
StringTable read_string_table(std::string_view bytes, std::string_view place);

}  // namespace lra
