// What a program of one's own needs of reprise::train.
#pragma once

#include "reprise/train/checkpoint.h"
#include "reprise/train/checkpoint/checkpoint_folder.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/phase.h"
#include "reprise/train/precision.h"
#include "reprise/train/save.h"
#include "reprise/train/trainer.h"
#include "reprise/train/validation.h"
