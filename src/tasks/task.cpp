#include "tasks/task.h"

namespace lra {

Task& find_task(std::string_view name) { return Registry<Task>::instance().get(name, "task"); }

MadeData Task::make(const TaskOptions&, const SplitCounts&, uint64_t) const {
  fail(name(), "this data cannot be made, it has to be imported: 'lra data import {} FROM'.", name());
}

MadeData Task::import(const TaskOptions&, const fs::path&) const {
  fail(name(), "there is nothing to import for this task; 'lra data make {}' makes its data.", name());
}

Json Task::check_file(const fs::path&) const {
  fail(name(), "this task has no rule to check a file against.");
}

std::string Task::tsv_header() const {
  fail(name(), "the data of this task is not published as TSV; use --format jsonl.");
}
std::string Task::tsv_row(const Dataset&, int64_t) const { return tsv_header(); }

}  // namespace lra
