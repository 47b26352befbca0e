// Positions of tokens on a grid, for models of pictures.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::nn {

/// How many patches a picture has in each direction; they count row by row.
struct Grid {
  int64_t rows = 0;     ///< patches from top to bottom
  int64_t columns = 0;  ///< patches from left to right
};

/// Sines and cosines of a patch's column, in the first half of the width, and of its row, in the second: f32
/// (rows x columns, width). Each half has sin(p w_i), then cos(p w_i), w_i = 10000^(-4 i / width) (He et al.
/// 2022, "Masked autoencoders are scalable vision learners"; I-JEPA). Error unless width is a multiple of 4.
Tensor sincos_positions(const Grid& grid, int64_t width, Device device = {});

/// Positions of another square grid of patches, (1, prefix + N, width) -> (1, prefix + rows x columns, width), as timm's
/// resample_abs_pos_embed: bicubic with antialias, in f32; the first `prefix` are kept as they are. Error unless N is a
/// square.
Tensor resample_positions(const Tensor& positions, const Grid& grid, int64_t prefix);

}  // namespace reprise::nn
