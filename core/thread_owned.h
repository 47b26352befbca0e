// Objects of each thread that may be used until the very end.
#pragma once

#include <utility>

namespace reprise {

/// This thread's `T`, made at its first use and deleted as the thread ends. Unlike a thread_local's, its use
/// is allowed afterwards too, in destructors of statics: then a new one is made and stays.
template <class T>
T& thread_owned() {
  struct Owner {
    T** object;
    ~Owner() { delete std::exchange(*object, nullptr); }
  };
  constinit static thread_local T* object = nullptr;
  if (!object) [[unlikely]] {
    object = new T;
    static thread_local Owner owner{&object};
  }
  return *object;
}

}  // namespace reprise
