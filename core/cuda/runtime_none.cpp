// The CUDA runtime of a build without CUDA: no device answers, and nothing else here is ever reached.
#include "reprise/core/cuda/kernel_image.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/cuda/stream_priority.h"
#include "reprise/core/error.h"

namespace reprise::cuda {
namespace {

[[noreturn]] void refuse(const char* call) { throw Bug(std::string(call) + ": built without CUDA"); }

}  // namespace

int device_count() { return 0; }
std::string unavailable_reason() { return "this build of Reprise has no CUDA"; }
bool is_emulated() { return false; }
int least_capability() { return 0; }
bool has_kernel_image(int) { refuse("has_kernel_image"); }
std::string built_architectures() { refuse("built_architectures"); }

void select_device(int) { refuse("select_device"); }
const DeviceProperties& properties(int) { refuse("properties"); }

void* allocate(int, size_t) { refuse("allocate"); }
void release(int, void*) noexcept {}
size_t free_memory(int) { refuse("free_memory"); }
void* allocate_pinned(size_t) { refuse("allocate_pinned"); }
void release_pinned(void*) noexcept {}
void mark_memory(void*, size_t, bool, void*) noexcept {}

void* create_stream(int) { refuse("create_stream"); }
void* create_stream(int, StreamPriority) { refuse("create_stream"); }
void destroy_stream(void*) noexcept {}
void synchronize_stream(void*) { refuse("synchronize_stream"); }
void synchronize_device(int) { refuse("synchronize_device"); }

void copy_async(void*, const void*, size_t, void*) { refuse("copy_async"); }
void set_bytes_async(void*, unsigned char, size_t, void*) { refuse("set_bytes_async"); }

void* create_event(int, bool) { refuse("create_event"); }
void destroy_event(void*) noexcept {}
void record_event(void*, void*) { refuse("record_event"); }
bool is_event_done(void*) { refuse("is_event_done"); }
void synchronize_event(void*) { refuse("synchronize_event"); }
void wait_event(void*, void*) { refuse("wait_event"); }
double seconds_between(void*, void*) { refuse("seconds_between"); }

void begin_capture(void*) { refuse("begin_capture"); }
bool is_capturing(void*) { refuse("is_capturing"); }
void* end_capture(void*) { refuse("end_capture"); }
void* instantiate_graph(void*) { refuse("instantiate_graph"); }
bool update_graph(void*, void*) { refuse("update_graph"); }
void launch_graph(void*, void*) { refuse("launch_graph"); }
void destroy_graph(void*) noexcept {}
void destroy_executable(void*) noexcept {}

}  // namespace reprise::cuda
