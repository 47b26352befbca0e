// Reprise: the one header a user needs. Tensors and their functions, autograd, modules, optimizers, data.
//
//   #include <reprise/reprise.h>
//   namespace rp = reprise;
#pragma once

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/engine.h"
#include "reprise/autograd/function.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/saved_tensor.h"
#include "reprise/core/device.h"
#include "reprise/core/error.h"
#include "reprise/core/memory.h"
#include "reprise/core/parallel.h"
#include "reprise/core/random.h"
#include "reprise/core/tensor.h"
#include "reprise/io/char_tokenizer.h"
#include "reprise/io/gpt2_bpe.h"
#include "reprise/io/safetensors.h"
#include "reprise/io/token_batches.h"
#include "reprise/io/token_dataset.h"
#include "reprise/nn/gpt.h"
#include "reprise/nn/init.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/module.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/schedule.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/nn/transformer.h"
