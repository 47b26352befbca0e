// Vectors of length 1, and the cosine between two.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// x / max(its vector_norm along `dim`, eps), of a floating dtype. (torch.nn.functional.normalize)
Tensor normalize(const Tensor& x, int64_t dim, double order = 2, double eps = 1e-12);

/// sum(a b) / (max(|a|, eps) max(|b|, eps)) along `dim`, which goes; the other dimensions broadcast. (torch.cosine_similarity)
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps = 1e-8);

}  // namespace reprise
