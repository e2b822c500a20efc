#include "tasks/task.h"

#include <iterator>

namespace lra {

Task& find_task(std::string_view name) { return Registry<Task>::instance().get(name, "task"); }

Json MadeData::deliver(DataSink& out) const {
  for (size_t s = 0; s < std::size(splits); ++s) {
    const Examples& examples = splits[s];
    for (int64_t i = 0; i < examples.size(); ++i) {
      const int64_t label = examples.labels[static_cast<size_t>(i)];
      if (examples.two()) {
        out.add(s, examples.first(i), examples.second(i), label);
      } else {
        out.add(s, examples.first(i), label);
      }
    }
  }
  return notes;
}

Json Task::make(const TaskOptions&, const SplitCounts&, uint64_t, DataSink&) const {
  fail(name(), "this data cannot be made, it has to be imported: 'lra data import {} FROM'.", name());
}

Json Task::import(const TaskOptions&, const fs::path&, DataSink&) const {
  fail(name(), "there is nothing to import for this task; 'lra data make {}' makes its data.", name());
}

Json Task::check_file(const fs::path&) const {
  fail(name(), "this task has no rule to check a file against.");
}

std::string Task::tsv_header() const { fail(name(), "this task has no export as TSV; use --format jsonl."); }
std::string Task::tsv_row(const Dataset&, int64_t) const { return tsv_header(); }

}  // namespace lra
