#include "reprise/distributed/nccl/nccl_emulated_collective.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "reprise/core/error.h"
#include "reprise/core/hash.h"

namespace reprise::distributed::emulated {
namespace {

constexpr size_t elements_per_order = 64;

std::vector<size_t> order_of(size_t ranks, uint64_t seed) {
  std::vector<size_t> order(ranks);
  std::iota(order.begin(), order.end(), size_t(0));
  for (size_t i = ranks; i > 1; --i) std::swap(order[i - 1], order[mix(seed, i) % i]);
  return order;
}

template <class T>
T add(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, int32_t>)
    return T(uint64_t(a) + uint64_t(b));
  else
    return T(a + b);
}

}  // namespace

std::optional<DType> dtype_of_nccl(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
      return DType::f64;
    case ncclFloat32:
      return DType::f32;
    case ncclBfloat16:
      return DType::bf16;
    case ncclFloat16:
      return DType::f16;
    case ncclInt64:
      return DType::i64;
    case ncclInt32:
      return DType::i32;
    case ncclUint8:
      return DType::u8;
    default:
      return {};
  }
}

Collective::Collective(std::shared_ptr<Mailbox> mailbox, const Problem& problem)
    : mailbox_(std::move(mailbox)),
      problem_(problem),
      head_(detail::join(int(problem.kind), ' ', problem.number, " of ", problem.count, ' ', problem.dtype,
                         " from ", problem.root, " in ", problem.place, '\n')),
      letters_(size_t(problem.ranks)) {}

// That it gives.
size_t Collective::bytes_of(int rank) const {
  if (problem_.kind == Kind::broadcast && rank != problem_.root) return 0;
  const size_t parts = problem_.kind == Kind::scatter_sum ? size_t(problem_.ranks) : 1;
  return parts * problem_.count * size_of(problem_.dtype);
}

bool Collective::is_ready() {
  if (mailbox_->is_aborted()) return true;
  if (std::optional<std::string>& own = letters_[size_t(problem_.rank)]; !own) {
    own = head_ + std::string(static_cast<const char*>(problem_.in), bytes_of(problem_.rank));
    for (int to = 0; to < problem_.ranks; ++to)
      if (to != problem_.rank) sent_.push_back(mailbox_->put(to, own->data(), own->size()));
  }
  bool has_all = true;
  for (int from = 0; from < problem_.ranks; ++from) {
    std::optional<std::string>& letter = letters_[size_t(from)];
    if (!letter) letter = mailbox_->take(from, head_.size() + bytes_of(from));
    has_all = has_all && letter && letter->starts_with(head_);
  }
  for (const std::string& letter : sent_) has_all = has_all && mailbox_->is_taken(letter);
  return has_all;
}

void Collective::finish() const {
  if (mailbox_->is_aborted()) return;
  if (problem_.kind == Kind::sum) return add_from(0);
  if (problem_.kind == Kind::scatter_sum) return add_from(size_t(problem_.rank) * problem_.count);
  char* next = static_cast<char*>(problem_.out);
  for (int rank = 0; rank < problem_.ranks; ++rank) {
    std::memcpy(next, letters_[size_t(rank)]->data() + head_.size(), bytes_of(rank));
    next += bytes_of(rank);
  }
}

// The result: what ranks have given from element `first` on, added.
void Collective::add_from(size_t first) const {
  dispatch_all(problem_.dtype, [&]<class T>() {
    auto element = [&](size_t rank, size_t i) {
      T value;
      std::memcpy(&value, letters_[rank]->data() + head_.size() + i * sizeof(T), sizeof(T));
      return value;
    };
    std::vector<size_t> order;
    for (size_t i = 0; i < problem_.count; ++i) {
      if (i % elements_per_order == 0)
        order = order_of(letters_.size(), mix(problem_.number, (first + i) / elements_per_order));
      T sum = element(order[0], first + i);
      for (size_t k = 1; k < order.size(); ++k) sum = add(sum, element(order[k], first + i));
      std::memcpy(static_cast<char*>(problem_.out) + i * sizeof(T), &sum, sizeof(T));
    }
  });
}

}  // namespace reprise::distributed::emulated
