// Anomaly mode: backward stops at the first NaN or inf gradient and names the forward operation it came from.
#pragma once

#include <string>

namespace reprise::autograd {

bool anomaly_mode_enabled();     ///< whether it is on for this thread; at first it is off
std::string op_scope();          ///< "block 3 / attention", from the scopes below; empty outside all
std::string anomaly_location();  ///< the same after " in "; empty outside all

/// While it lives, forward operations record their description and backward checks every gradient for NaN and
/// inf.
class AnomalyMode {
 public:
  explicit AnomalyMode(bool enabled = true);  ///< false: off, inside of one that is on
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;

 private:
  bool previous_;
};

/// Names a part of the program, for anomaly messages and accounts: `OpScope scope("block 3");`
class OpScope {
 public:
  explicit OpScope(std::string name);  ///< on this thread, until it dies; scopes nest
  ~OpScope();
  OpScope(const OpScope&) = delete;
  const std::string& name() const { return name_; }  ///< as given, without those around
  const OpScope* outer() const { return outer_; }    ///< the scope around it; null if there is none

 private:
  std::string name_;
  const OpScope* outer_;
};

}  // namespace reprise::autograd

namespace reprise {
using autograd::AnomalyMode;
using autograd::OpScope;
}  // namespace reprise
