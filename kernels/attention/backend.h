// Which implementation of attention runs on CUDA devices. `reprise`, the kernels of mma_forward.cu and
// its neighbours, takes every call; the others take what they are made for and leave the rest to it. `automatic`, which is
// chosen at first, is the fastest of our own: `sm90` on a GPU, `reprise` in the emulator. cuDNN's is faster still at some
// shapes (docs/results/2026-11-27-h100.md), and takes 2 bytes for each score in backward, so it is for those who ask for it.
#pragma once

#include <string_view>

#include "reprise/kernels/attention/attention.h"

namespace reprise::kernels {

enum class AttentionBackend : uint8_t { automatic, reprise, sm90, cudnn };
inline constexpr AttentionBackend attention_backends[] = {
    AttentionBackend::automatic, AttentionBackend::reprise, AttentionBackend::sm90, AttentionBackend::cudnn};
std::string_view name_of(AttentionBackend backend);

/// Calls of `attention` and `attention_backward` on CUDA devices use `backend` from now on, in all threads.
/// Error if this build does not have it.
void set_attention_backend(AttentionBackend backend);
AttentionBackend attention_backend();

/// What the last call on a CUDA device ran on, forward or backward: the chosen backend, or `reprise` where
/// that did not take the call; never `automatic`.
enum class AttentionPass { forward, backward };
AttentionBackend attention_backend_used(AttentionPass pass);
/// Used by the calls themselves.
void note_attention_backend(AttentionPass pass, AttentionBackend backend);

/// Whether this build has the backend.
bool has_attention_backend(AttentionBackend backend);

/// An implementation beside `reprise`. Its functions return false, with nothing done, for a call that they do
/// not take. Arguments are checked and not empty. All backends save the same lse and draw the same dropout,
/// so that one's backward may follow another's forward.
struct AttentionFunctions {
  bool (*forward)(const Stream&, const AttentionArguments&) = nullptr;
  bool (*backward)(const Stream&, const AttentionBackwardArguments&) = nullptr;
};

/// Adds a backend: one static object in the file that implements it. A null function takes no call.
///   const AttentionOnBackend on_cudnn{AttentionBackend::cudnn, {.forward = forward, .backward = backward}};
struct AttentionOnBackend {
  AttentionOnBackend(AttentionBackend backend, AttentionFunctions functions);
};

/// The backend to ask first, `automatic` resolved, and its functions, null for `reprise`.
AttentionBackend first_attention_backend();
AttentionFunctions attention_functions(AttentionBackend backend);

}  // namespace reprise::kernels
