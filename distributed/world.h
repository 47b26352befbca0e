// World: what all groups of one rank share: the transport, and the first failure, which ends all of them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "reprise/distributed/transport.h"

namespace reprise::distributed {

class World {
 public:
  /// Without a transport: one rank alone.
  explicit World(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
  ~World();  ///< leaves
  World(const World&) = delete;

  const std::shared_ptr<Transport>& transport() const { return transport_; }
  int rank() const { return transport_ ? transport_->rank() : 0; }
  int ranks() const { return transport_ ? transport_->ranks() : 1; }

  /// Throws the failure that ended this world, if one did; Error if this rank has left.
  void check_alive(const std::string& operation) const;
  /// Ends the world, unless it has ended: then `error` becomes what ended it.
  DistributedError fail(const DistributedError& error);
  void leave();

 private:
  std::shared_ptr<Transport> transport_;
  mutable std::mutex mutex_;
  std::optional<DistributedError> failure_;
  bool left_ = false;
};

}  // namespace reprise::distributed
