// From the last operation to the first: what is read must be there, or its operation must run.
#include "reprise/autograd/recompute/replay/needs.h"

namespace reprise::recompute {

bool Needs::reads_results_of(size_t op) const {
  auto first = reads.lower_bound({op, 0});
  return first != reads.end() && first->op == op;
}

Needs needs_of(const Recording& run, const std::vector<bool>& rebuild, const std::set<ResultId>& at_hand) {
  Needs needs{.runs = std::vector<bool>(run.ops.size()), .reads = {}};
  needs.reads.insert(run.always_read.begin(), run.always_read.end());
  for (size_t slot = 0; slot < rebuild.size(); ++slot) {
    if (!rebuild[slot]) continue;
    const SlotSource& source = run.slots[slot].source;
    if (source.result) needs.reads.insert(*source.result);
    if (!source.input) needs.runs[source.op] = true;
  }
  for (size_t k = run.ops.size(); k-- > 0;) {
    const OpRecord& op = run.ops[k];
    bool runs = needs.runs[k] || !op.replaceable;
    for (size_t i = 0; i < op.results.size(); ++i) {
      ResultId id{k, i};
      runs |= needs.reads.contains(id) && !at_hand.contains(id);
    }
    needs.runs[k] = runs;
    if (needs.runs[k]) needs.reads.insert(op.reads.begin(), op.reads.end());
  }
  return needs;
}

}  // namespace reprise::recompute
