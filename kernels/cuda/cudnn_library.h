// cuDNN, opened at run time: each of its functions that Reprise calls is an object of the same name, so that calls in this
// namespace read as if the library were linked. Only files that call cuDNN include this.
#pragma once

#include <cudnn.h>

#include <atomic>

namespace reprise::kernels::vendor {

/// Whether it can be opened; if not, stderr says once why. Asked before anything of it is called.
bool has_cudnn();

/// Error if cuDNN cannot be opened or lacks the function.
void* cudnn_function(const char* name);

template <class Function>
class CudnnFunction;

/// Found at its first call.
template <class Result, class... Parameters>
class CudnnFunction<Result(Parameters...)> {
 public:
  constexpr explicit CudnnFunction(const char* name) : name_(name) {}
  Result operator()(Parameters... parameters) const {
    void* at = at_.load(std::memory_order_relaxed);
    if (!at) at_.store(at = cudnn_function(name_), std::memory_order_relaxed);
    return reinterpret_cast<Result (*)(Parameters...)>(at)(parameters...);
  }

 private:
  const char* name_;
  mutable std::atomic<void*> at_{nullptr};
};

inline const CudnnFunction<decltype(::cudnnAddTensor)> cudnnAddTensor{"cudnnAddTensor"};
inline const CudnnFunction<decltype(::cudnnBackendCreateDescriptor)> cudnnBackendCreateDescriptor{
    "cudnnBackendCreateDescriptor"};
inline const CudnnFunction<decltype(::cudnnBackendDestroyDescriptor)> cudnnBackendDestroyDescriptor{
    "cudnnBackendDestroyDescriptor"};
inline const CudnnFunction<decltype(::cudnnBackendExecute)> cudnnBackendExecute{"cudnnBackendExecute"};
inline const CudnnFunction<decltype(::cudnnBackendFinalize)> cudnnBackendFinalize{"cudnnBackendFinalize"};
inline const CudnnFunction<decltype(::cudnnBackendGetAttribute)> cudnnBackendGetAttribute{
    "cudnnBackendGetAttribute"};
inline const CudnnFunction<decltype(::cudnnBackendSetAttribute)> cudnnBackendSetAttribute{
    "cudnnBackendSetAttribute"};
inline const CudnnFunction<decltype(::cudnnConvolutionBackwardData)> cudnnConvolutionBackwardData{
    "cudnnConvolutionBackwardData"};
inline const CudnnFunction<decltype(::cudnnConvolutionBackwardFilter)> cudnnConvolutionBackwardFilter{
    "cudnnConvolutionBackwardFilter"};
inline const CudnnFunction<decltype(::cudnnConvolutionForward)> cudnnConvolutionForward{
    "cudnnConvolutionForward"};
inline const CudnnFunction<decltype(::cudnnCreate)> cudnnCreate{"cudnnCreate"};
inline const CudnnFunction<decltype(::cudnnCreateConvolutionDescriptor)> cudnnCreateConvolutionDescriptor{
    "cudnnCreateConvolutionDescriptor"};
inline const CudnnFunction<decltype(::cudnnCreateFilterDescriptor)> cudnnCreateFilterDescriptor{
    "cudnnCreateFilterDescriptor"};
inline const CudnnFunction<decltype(::cudnnCreateTensorDescriptor)> cudnnCreateTensorDescriptor{
    "cudnnCreateTensorDescriptor"};
inline const CudnnFunction<decltype(::cudnnDestroyConvolutionDescriptor)> cudnnDestroyConvolutionDescriptor{
    "cudnnDestroyConvolutionDescriptor"};
inline const CudnnFunction<decltype(::cudnnDestroyFilterDescriptor)> cudnnDestroyFilterDescriptor{
    "cudnnDestroyFilterDescriptor"};
inline const CudnnFunction<decltype(::cudnnDestroyTensorDescriptor)> cudnnDestroyTensorDescriptor{
    "cudnnDestroyTensorDescriptor"};
inline const CudnnFunction<decltype(::cudnnGetConvolutionBackwardDataAlgorithm_v7)>
    cudnnGetConvolutionBackwardDataAlgorithm_v7{"cudnnGetConvolutionBackwardDataAlgorithm_v7"};
inline const CudnnFunction<decltype(::cudnnGetConvolutionBackwardFilterAlgorithm_v7)>
    cudnnGetConvolutionBackwardFilterAlgorithm_v7{"cudnnGetConvolutionBackwardFilterAlgorithm_v7"};
inline const CudnnFunction<decltype(::cudnnGetConvolutionForwardAlgorithm_v7)>
    cudnnGetConvolutionForwardAlgorithm_v7{"cudnnGetConvolutionForwardAlgorithm_v7"};
inline const CudnnFunction<decltype(::cudnnGetErrorString)> cudnnGetErrorString{"cudnnGetErrorString"};
inline const CudnnFunction<decltype(::cudnnGetLastErrorString)> cudnnGetLastErrorString{
    "cudnnGetLastErrorString"};
inline const CudnnFunction<decltype(::cudnnGetVersion)> cudnnGetVersion{"cudnnGetVersion"};
inline const CudnnFunction<decltype(::cudnnSetConvolution2dDescriptor)> cudnnSetConvolution2dDescriptor{
    "cudnnSetConvolution2dDescriptor"};
inline const CudnnFunction<decltype(::cudnnSetConvolutionGroupCount)> cudnnSetConvolutionGroupCount{
    "cudnnSetConvolutionGroupCount"};
inline const CudnnFunction<decltype(::cudnnSetConvolutionMathType)> cudnnSetConvolutionMathType{
    "cudnnSetConvolutionMathType"};
inline const CudnnFunction<decltype(::cudnnSetFilter4dDescriptor)> cudnnSetFilter4dDescriptor{
    "cudnnSetFilter4dDescriptor"};
inline const CudnnFunction<decltype(::cudnnSetStream)> cudnnSetStream{"cudnnSetStream"};
inline const CudnnFunction<decltype(::cudnnSetTensor4dDescriptor)> cudnnSetTensor4dDescriptor{
    "cudnnSetTensor4dDescriptor"};

}  // namespace reprise::kernels::vendor
