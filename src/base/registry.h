// Self-registration: a source file adds its model, task or verb itself; no central list knows it.
//
//   const Registered<Task> listops(std::make_unique<ListOps>(), LRA_HERE);
//
// Objects must have a `name()`. A duplicate name stops the program at start-up naming both files; an unknown
// name is an error that lists the nearest. Registration survives linking because programs link the object
// files themselves.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

#define LRA_HERE __FILE__

namespace lra {

template <class T>
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }
  void add(std::unique_ptr<T> object, const char* file) {
    const std::string name(object->name());
    const auto [at, added] = entries_.try_emplace(name, Entry{std::move(object), file});
    if (!added) {
      std::fprintf(stderr, "lra: [registry] '%s' is registered twice, in %s and in %s. Rename one.\n",
                   name.c_str(), at->second.file.c_str(), file);
      std::exit(2);
    }
  }
  // `what` says in an error what was looked for: "task", "model".
  T& get(std::string_view name, std::string_view what) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
      fail(what, "there is no {} '{}'. {}", what, name, suggestion(name, names()));
    }
    return *found->second.object;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, entry] : entries_) all.push_back(name);
    return all;
  }

 private:
  struct Entry {
    std::unique_ptr<T> object;
    std::string file;
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

template <class T>
struct Registered {
  Registered(std::unique_ptr<T> object, const char* file) {
    Registry<T>::instance().add(std::move(object), file);
  }
};

}  // namespace lra
