// Windows of NCCL's double: the memory that it hands out, and what of it a communicator knows on all ranks.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/distributed/nccl/nccl_emulated.h"
#include "reprise/distributed/nccl/nccl_emulated_mailbox.h"

namespace reprise::distributed::emulated {

/// ncclMemAlloc; null if there is not enough.
void* obtain_window_memory(int device, size_t bytes);
/// ncclMemFree, which waits for no work; false if it reports that this is no such memory, or a window.
bool free_window_memory(void* data);

/// Those of one communicator.
class Windows {
 public:
  Windows(std::shared_ptr<Mailbox> mailbox, int rank, int ranks);
  ~Windows();  // their memory is a window of the others alone

  /// ncclCommWindowRegister: `handle` is written once all ranks have made the call. What is wrong; empty if nothing is.
  std::string begin(void* data, size_t bytes, void** handle, NcclWindows kind);
  /// False while one is begun, which ranks that begin another one never end.
  bool is_settled();
  bool end(void* handle);  ///< false if there is none
  size_t count() const { return windows_.size(); }
  /// "window 2 at 4096"; empty of memory in none. Nothing of memory that lies in one and beyond it.
  std::optional<std::string> place_of(const void* data, size_t bytes) const;

 private:
  struct Window {
    char* data;
    size_t bytes;
    int number;
  };
  struct Begun {
    Window window;
    void** handle;
    NcclWindows kind;
    std::string letter;
    std::vector<std::optional<std::string>> letters;  // of each rank
  };
  void finish();

  std::shared_ptr<Mailbox> mailbox_;
  int rank_, ranks_;
  int made_ = 0;
  std::list<Window> windows_;  // handles are addresses of these
  std::optional<Begun> begun_;
};

}  // namespace reprise::distributed::emulated
