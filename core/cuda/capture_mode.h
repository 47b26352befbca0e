// What threads may call while a stream is captured, and the mode in which our own graphs are captured.
#pragma once

namespace reprise::cuda {

/// Who may make calls that CUDA names potentially unsafe while a stream is captured, as they are not captured: to take memory, and
/// to load the code of a kernel, which its first launch does. One that is forbidden fails, and makes the capture invalid.
/// (cudaStreamCaptureMode.)
enum class CaptureMode {
  global,       ///< no thread
  this_thread,  ///< all threads but the one that began the capture
  relaxed       ///< all threads
};

/// The mode of `begin_capture`, inside which memory is taken and kernels are launched for the first time.
inline constexpr CaptureMode mode_of_captures = CaptureMode::relaxed;

}  // namespace reprise::cuda
