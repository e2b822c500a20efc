// The Long Range Arena's release, lra_release.gz or its folder, holds a copy of itself:
//
//   lra_release/listops-1000/…                    also pathfinder128
//   lra_release/lra_release/listops-1000/…        also tsv_data, pathfinder32, 64, 128 and 256
//
// The inner copy is what everybody uses. People have the release as it came, either level of it, or one of
// its folders alone.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "data/file_source.h"
#include "tasks/task.h"

namespace lra {

// The folder of `source` that holds what is wanted, as the beginning of paths, "" or ending in '/': among
// those that `folder_of` finds in paths the one with the most parts `lra_release`, then the shortest. Nothing
// where there is none. An archive is read through once for this. `what` is for the progress line.
using FolderOf = std::function<std::optional<std::string>(std::string_view path)>;
std::optional<std::string> find_in_release(const FileSource& source, std::string_view what,
                                           const FolderOf& folder_of);
// The same for a file "listops-1000/basic_train.tsv"; at the top of the source also without its first part,
// since people name that folder itself.
std::optional<std::string> find_in_release(const FileSource& source, std::string_view file);

// Where it is published; its owners name no checksum.
Download release_download();

}  // namespace lra
