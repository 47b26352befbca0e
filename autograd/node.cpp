// Node numbering and destruction without recursion.
#include "reprise/autograd/node.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace reprise::autograd {
namespace {

std::atomic<uint64_t> next_sequence{0};
std::atomic<int64_t> live_count{0};

// Nodes waiting to be deleted on this thread, and whether one is being deleted. Plain data: it outlives every
// other thread-local.
thread_local Node* waiting = nullptr;
thread_local bool deleting = false;

}  // namespace

Node::Node() : Node(next_sequence.fetch_add(1, std::memory_order_relaxed)) {}
Node::Node(uint64_t sequence) : sequence_(sequence) { live_count.fetch_add(1); }
Node::~Node() { live_count.fetch_sub(1); }

bool Node::shows_input_gradients() const {
  return std::any_of(node_hooks_.begin(), node_hooks_.end(),
                     [](const NodeHook& hook) { return bool(hook.behind); });
}

// Note [Destruction without recursion]
// Deleting a node drops its edges and saved tensors, which may hold the last handles of earlier nodes. Those
// land here again while the first call is still in its loop, and only join the queue.
void detail::delete_later(Node* node) noexcept {
  node->deleted_after_ = std::exchange(waiting, node);
  if (std::exchange(deleting, true)) return;
  while (waiting) { delete std::exchange(waiting, waiting->deleted_after_); }
  deleting = false;
}

int64_t live_nodes() { return live_count.load(); }

}  // namespace reprise::autograd
