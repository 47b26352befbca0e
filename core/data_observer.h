// DataObserver: is told when code on this thread asks where the data of a tensor is, to read or write it.
// Recompute sees by it what a function reads outside of operations.
#pragma once

namespace reprise {

class Tensor;

class DataObserver {
 public:
  virtual ~DataObserver() = default;
  virtual void data_asked(const Tensor& x) = 0;

 private:
  friend class SetDataObserver;
  static DataObserver* exchange(DataObserver* observer);
};

/// While it lives, `observer` is told in place of the one before; null: none.
class SetDataObserver {
 public:
  explicit SetDataObserver(DataObserver* observer) : before_(DataObserver::exchange(observer)) {}
  ~SetDataObserver() { DataObserver::exchange(before_); }
  SetDataObserver(const SetDataObserver&) = delete;

 private:
  DataObserver* before_;
};

}  // namespace reprise
