// Whether data on disk is what it claims to be: hashes, contents, the task's own promises, disjoint splits.
#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "base/signals.h"
#include "data/content_hash.h"
#include "tasks/task.h"

namespace lra {
namespace {

void check_against_manifest(const Dataset& data, const Json& manifest, const DataFolder& folder) {
  const DatasetInfo& info = data.info();
  const std::string where = folder.manifest_path().string();
  const Json& entry = manifest.at("splits").at(info.split);
  for (const auto& [key, value] : to_metadata(info)) {
    const auto written = json_get<std::string>(entry, key.c_str(), where);
    if (written != value) {
      fail("data",
           "{} says {} = '{}', the manifest says '{}'. One of the two was changed or copied from elsewhere.",
           data.path().string(), key, value, written);
    }
  }
  if (info.variant != folder.variant) {
    fail("data", "{} was made as variant '{}' but lies in a folder named '{}'. Rename the folder back.",
         data.path().string(), info.variant, folder.variant);
  }
  const auto examples = json_get<int64_t>(entry, "examples", where);
  if (examples != data.size()) {
    fail("data", "{} has {} examples, the manifest says {}.", data.path().string(), data.size(), examples);
  }
}

// "matches" for the benchmark's own data, "tiny" for the known small set, "unknown" where no hash is known.
std::string check_golden(const Task& task, const Dataset& data, const DataFolder& folder,
                         const std::string& sha256) {
  if (data.info().version != task.info().version) {
    fail("data", "{} is version {} of {}, this program makes version {}. Make the data again with --force.",
         data.path().string(), data.info().version, folder.task, task.info().version);
  }
  const std::string key = fmt::format("{}/{}", folder.variant, data.info().split);
  for (const auto& [name, known] : task.golden_hashes()) {
    if (name != key) continue;
    const bool tiny = folder.variant == "tiny";
    if (known == sha256) return tiny ? "tiny" : "matches";
    fail("data",
         "{}: the data has sha256 {}, {} is {}. Make or import it again with --force; data of your own "
         "belongs under a name of its own (--variant NAME).",
         data.path().string(), sha256, tiny ? "the known small set" : "the benchmark's own", known);
  }
  return "unknown";
}

struct Fingerprint {
  uint64_t hash;
  size_t split;
  int64_t index;
};

// Examples with the same tokens, whatever their labels: within[s] in one split, between[s][t] shared by two.
struct Repeats {
  int64_t within[3] = {}, between[3][3] = {};
  std::string first_shared;
};

// Splits may store their ids in different widths: examples are compared by ids, not by bytes.
bool same_ids(const Tokens& a, const Tokens& b) {
  if (a.width() == b.width()) return a.bytes() == b.bytes();
  bool same = a.size() == b.size();
  for (int64_t t = 0; same && t < a.size(); ++t) same = a[t] == b[t];
  return same;
}

bool same_tokens(const Dataset& a, int64_t i, const Dataset& b, int64_t j) {
  return same_ids(a.tokens(i), b.tokens(j)) && (!a.has_second() || same_ids(a.tokens2(i), b.tokens2(j))) &&
         (!a.has_places() || same_ids(a.places(i), b.places(j)));
}

uint64_t hash_of(const Tokens& tokens, uint64_t before, std::vector<uint16_t>& wide) {
  if (tokens.width() == 2) return content_hash(tokens.bytes(), before);
  wide.resize(static_cast<size_t>(tokens.size()));
  for (int64_t t = 0; t < tokens.size(); ++t) wide[static_cast<size_t>(t)] = static_cast<uint16_t>(tokens[t]);
  return content_hash(Tokens(std::span<const uint16_t>(wide)).bytes(), before);
}

Repeats find_repeats(const std::vector<Dataset>& splits) {
  std::vector<Fingerprint> all;
  std::vector<uint16_t> wide;
  for (size_t s = 0; s < splits.size(); ++s) {
    for (int64_t i = 0; i < splits[s].size(); ++i) {
      uint64_t hash = hash_of(splits[s].tokens(i), 0, wide);
      if (splits[s].has_second()) hash = hash_of(splits[s].tokens2(i), hash, wide);
      all.push_back({hash, s, i});
    }
  }
  std::sort(all.begin(), all.end(), [](const Fingerprint& a, const Fingerprint& b) {
    return std::tuple(a.hash, a.split, a.index) < std::tuple(b.hash, b.split, b.index);
  });
  Repeats repeats;
  for (size_t i = 0; i < all.size(); ++i) {
    // Each example is compared with the first of its hash in every split, which is what "shared" counts.
    bool met[3] = {};
    for (size_t j = i; j-- > 0 && all[j].hash == all[i].hash;) {
      const Fingerprint &a = all[j], &b = all[i];
      if (met[a.split] || !same_tokens(splits[a.split], a.index, splits[b.split], b.index)) continue;
      met[a.split] = true;
      if (a.split == b.split) {
        ++repeats.within[a.split];
        break;  // its copies in other splits were counted with the first of its own
      }
      ++repeats.between[a.split][b.split];
      if (repeats.first_shared.empty()) {
        repeats.first_shared = fmt::format("{} example {} = {} example {}", kSplits[a.split], a.index,
                                           kSplits[b.split], b.index);
      }
    }
  }
  return repeats;
}

Json report_repeats(const Repeats& repeats) {
  Json json = {{"within", Json::object()}, {"shared", Json::object()}};
  for (size_t s = 0; s < std::size(kSplits); ++s) {
    json["within"][kSplits[s]] = repeats.within[s];
    for (size_t t = s + 1; t < std::size(kSplits); ++t) {
      json["shared"][fmt::format("{}-{}", kSplits[s], kSplits[t])] = repeats.between[s][t];
    }
  }
  return json;
}

}  // namespace

Json verify_data(const Task& task, const DataFolder& folder) {
  const Json manifest = read_manifest(folder);
  const auto origin = json_get<std::string>(manifest, "origin", folder.manifest_path().string());
  Json report = {{"task", folder.task},
                 {"variant", folder.variant},
                 {"path", folder.path().string()},
                 {"origin", origin},
                 {"splits", Json::object()}};
  std::vector<Dataset> splits;
  for (const char* split : kSplits) {
    if (interrupted()) throw Interrupted("verifying was interrupted");
    const Dataset& data = splits.emplace_back(folder.open(split));
    check_against_manifest(data, manifest, folder);
    const std::string sha256 = data.compute_sha256();
    if (sha256 != data.info().sha256) {
      fail("data",
           "{}: the tensors have sha256 {}, the metadata says {}. The file is damaged: make it again with "
           "--force.",
           data.path().string(), sha256, data.info().sha256);
    }
    data.check_contents();
    task.verify(data);
    report["splits"][split] = {{"examples", data.size()},
                               {"tokens", data.total_tokens()},
                               {"sha256", sha256},
                               {"benchmark", check_golden(task, data, folder, sha256)}};
  }
  const Repeats repeats = find_repeats(splits);
  report["repeats"] = report_repeats(repeats);
  if (!repeats.first_shared.empty()) {
    const std::string what =
        fmt::format("{}: splits share examples: {}", folder.path().string(), repeats.first_shared);
    if (origin == "made") fail("data", "{}. Make the data again with --force.", what);
    warn("{}, as their owners published them.",
         what);  // known of several real data sets; the numbers are in the report
  }
  return report;
}

}  // namespace lra
